"""Operators: of compile-time values computed here, of run-time scalars and tiles turned into operations."""

from __future__ import annotations

import ast

from xdsl.dialects import arith, scf
from xdsl.ir import Block, Operation
from xdsl.traits import is_side_effect_free

from tilec.frontend.lowering import constants, scalars
from tilec.frontend.lowering.arguments import Argument
from tilec.frontend.lowering.blocks import inside, splice
from tilec.frontend.lowering.frame import Site, shown
from tilec.frontend.lowering.values import Acc, Place, Scalar, Smem, Thing, Value, View, is_constant, kind
from tilec.frontend.lowering.vocabulary import VOCABULARY

BINARY: dict[type[ast.operator], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Pow: "**",
    ast.LShift: "<<",
    ast.RShift: ">>",
    ast.BitAnd: "&",
    ast.BitOr: "|",
    ast.BitXor: "^",
    ast.MatMult: "@",
}
UNARY: dict[type[ast.unaryop], str] = {ast.USub: "-", ast.UAdd: "+", ast.Invert: "~"}
COMPARE: dict[type[ast.cmpop], str] = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Is: "is",
    ast.IsNot: "is not",
    ast.In: "in",
    ast.NotIn: "not in",
}
_LOAD, _COPY = "load it to registers first: tile.load(...)", "copy a tile of it to shared memory, and load that"
_TO_REGISTERS: dict[type[Thing], str] = {Smem: _LOAD, Acc: _LOAD, View: _COPY, Place: _COPY}
"""How the numbers of something get to where they can be computed with."""


def binary(site: Site, node: ast.BinOp) -> Value:
    left = Argument(site.frame, node.left, site.evaluate(node.left), "the left operand")
    right = Argument(site.frame, node.right, site.evaluate(node.right), "the right operand")
    return combine(site, BINARY[type(node.op)], left, right)


def combine(site: Site, symbol: str, left: Argument, right: Argument) -> Value:
    """`left symbol right`, of values of any class."""
    for value in (left.value, right.value):
        if isinstance(value, Thing) and type(value) in VOCABULARY.operators:
            return VOCABULARY.operators[type(value)](site, symbol, left, right)
    if symbol == "@":
        site.fail(f"`{site.text}`: @ has no meaning in a kernel", "multiply tiles with tile.mma(acc, a, b)")
    for argument in (left, right):
        if isinstance(argument.value, Thing) and not isinstance(argument.value, Scalar):
            argument.fail(f"{kind(argument.value)} has no {symbol}", _TO_REGISTERS.get(type(argument.value)))
    if isinstance(left.value, Scalar) or isinstance(right.value, Scalar):
        return scalars.binary(site, symbol, left.value, right.value)
    return constants.binary(site, symbol, left.value, right.value)


def unary(site: Site, node: ast.UnaryOp) -> Value:
    value = site.evaluate(node.operand)
    if isinstance(node.op, ast.Not):
        return scalars.negation(site, value) if isinstance(value, Scalar) else not constants.truth(site, value)
    symbol = UNARY[type(node.op)]
    if isinstance(value, Scalar):
        scalars.unary(site, symbol, value)
    if isinstance(value, Thing) and type(value) in VOCABULARY.operators and symbol == "-":
        minus = Argument(site.frame, node, -1.0, "the operator")  # 0 - x would lose the sign of zero
        operand = Argument(site.frame, node.operand, value, "the operand")
        return VOCABULARY.operators[type(value)](site, "*", operand, minus)
    return constants.unary(site, symbol, value)


def comparison(site: Site, node: ast.Compare) -> Value:
    result: Value = True
    nodes = [node.left, *node.comparators]
    left = Argument(site.frame, nodes[0], site.evaluate(nodes[0]), "the left operand")
    for operator, right_node in zip(node.ops, nodes[1:], strict=True):
        value = _behind_condition(site, right_node) if isinstance(result, Scalar) else site.evaluate(right_node)
        right = Argument(site.frame, right_node, value, "the right operand")
        result = _both(site, result, _compared(site, COMPARE[type(operator)], left, right))
        if result is False:
            return False
        left = right
    return result


def _compared(site: Site, symbol: str, left: Argument, right: Argument) -> Value:
    if symbol in ("is", "is not", "in", "not in") or (is_constant(left.value) and is_constant(right.value)):
        return constants.compare(site, symbol, left.value, right.value)
    if isinstance(left.value, Scalar) or isinstance(right.value, Scalar):
        return scalars.compare(site, symbol, left.value, right.value)
    wrong = left if isinstance(left.value, Thing) else right
    wrong.fail(f"{kind(wrong.value)} cannot be compared", "numbers, conditions and element types can")


def _both(site: Site, left: Value, right: Value) -> Value:
    """`left and right` of a chain of comparisons."""
    if isinstance(left, Scalar) and isinstance(right, Scalar):
        return scalars.binary(site, "&", left, right)
    return right if left is True else (left if right is True else False)


def logic(site: Site, node: ast.BoolOp) -> Value:
    """`and` and `or`: what stands behind a run-time condition is computed always."""
    is_and = isinstance(node.op, ast.And)
    result: Value = is_and
    for one in node.values:
        value = _behind_condition(site, one) if isinstance(result, Scalar) else site.evaluate(one)
        if isinstance(value, Scalar) and not value.is_condition:
            site.at(one).fail(f"`{shown(one)}` is {kind(value)}, and no condition", "compare it with a number")
        if isinstance(result, Scalar):
            if isinstance(value, Scalar):
                result = scalars.binary(site, "&" if is_and else "|", result, value)
            elif not isinstance(value, bool):
                site.at(one).fail(
                    f"`{shown(one)}` is {kind(value)}, and no condition", "`x if c else y` chooses between numbers"
                )
            elif value != is_and:
                return not is_and
        elif isinstance(value, Scalar):
            result = value
        else:
            result = value
            if constants.truth(site.at(one), value) != is_and:
                return value
    return result


def conditional(site: Site, node: ast.IfExp) -> Value:
    condition = site.evaluate(node.test)
    if not isinstance(condition, Scalar):
        return site.evaluate(node.body if constants.truth(site.at(node.test), condition) else node.orelse)
    if not condition.is_condition:
        site.at(node.test).fail(
            f"`{shown(node.test)}` is {kind(condition)}, and no condition", "compare it with a number"
        )
    then, otherwise = _behind_condition(site, node.body), _behind_condition(site, node.orelse)
    for one, value in ((node.body, then), (node.orelse, otherwise)):
        if not isinstance(value, Scalar | int):
            site.at(one).fail(
                f"a run-time condition chooses between numbers, not {kind(value)}", "write an if statement"
            )
    return scalars.select(site, condition, then, otherwise)


def _behind_condition(site: Site, node: ast.expr) -> Value:
    """What Python would compute only where a run-time condition asks for it: here it always is, so it may do no more."""
    block = Block()
    value = inside(site.frame, block, lambda: site.evaluate(node))
    for op in block.walk():
        if not _only_computes(op):
            site.at(node).fail(
                f"`{shown(node)}` does more than compute a number, but would be executed whatever the condition is",
                "choose between numbers, such as offsets, and do it once; or write an if statement",
            )
        if _may_divide_by_zero(op):
            site.at(node).fail(
                f"`{shown(node)}` would be computed whatever the condition is, and may divide by zero",
                "divide by a number that is at least 1, as max(x, 1)",
            )
    splice(site.frame, block)
    return value


def _only_computes(op: Operation) -> bool:
    """Whether an operation, apart from those inside of it, has no effect, and comes to an end."""
    if op.regions:
        return isinstance(op, scf.IfOp | scf.ForOp)
    return op.dialect_name() == "arith" or is_side_effect_free(op)


def _may_divide_by_zero(op: Operation) -> bool:
    if not isinstance(op, arith.DivUIOp | arith.RemUIOp | arith.CeilDivUIOp):
        return False
    return not scalars.is_at_least_one(op.rhs)
