"""What Python has and kernels do not: each construct by its name, with what to write in its place."""

from __future__ import annotations

import ast
from typing import NoReturn

from tilec.frontend.lowering.frame import Site

_COMPUTED = "compute the value outside of the kernel: it can read numbers, strings, element types and tuples"
_CONTAINERS = "write a tuple"
_HELPER = "define a function outside of the kernel and call it: its code is lowered in place"
_ASYNC = "a kernel awaits nothing"

REFUSED: dict[type[ast.AST], tuple[str, str]] = {
    # Statements
    ast.FunctionDef: ("a function inside of it", _HELPER),
    ast.AsyncFunctionDef: ("an async function", _ASYNC),
    ast.ClassDef: ("a class", "define it outside of the kernel"),
    ast.Delete: ("del", "leave it out: names end with their block"),
    ast.AsyncFor: ("async for", "write for"),
    ast.AsyncWith: ("async with", "write with"),
    ast.Raise: ("raise", "write `assert condition, message` for what is known at compile time"),
    ast.Try: ("try", "a kernel raises nothing: write if"),
    ast.TryStar: ("try", "a kernel raises nothing: write if"),
    ast.Import: ("import", "import outside of the kernel"),
    ast.ImportFrom: ("import", "import outside of the kernel"),
    ast.Global: ("global", "a kernel sets no names outside of it: return the value"),
    ast.Nonlocal: ("nonlocal", "a kernel sets no names outside of it: return the value"),
    ast.Match: ("match", "write if and elif"),
    ast.Break: ("break", "write the condition as that of a while loop, or put the rest of the body under an if"),
    ast.Continue: ("continue", "put the rest of the body under an if"),
    # Expressions
    ast.NamedExpr: ("the operator :=", "set the name in a statement of its own"),
    ast.Lambda: ("a lambda", _HELPER),
    ast.Dict: ("a dict", _CONTAINERS),
    ast.Set: ("a set", _CONTAINERS),
    ast.List: ("a list", _CONTAINERS),
    ast.ListComp: ("a list comprehension", "write a for loop over range(...), which is written out"),
    ast.SetComp: ("a set comprehension", "write a for loop over range(...), which is written out"),
    ast.DictComp: ("a dict comprehension", "write a for loop over range(...), which is written out"),
    ast.GeneratorExp: ("a generator expression", "write a for loop over range(...), which is written out"),
    ast.Await: ("await", _ASYNC),
    ast.Yield: ("yield", "a kernel returns its outputs, and yields nothing"),
    ast.YieldFrom: ("yield", "a kernel returns its outputs, and yields nothing"),
    ast.JoinedStr: ("an f-string", "write one in the message of an assert only"),
    ast.FormattedValue: ("an f-string", "write one in the message of an assert only"),
    ast.Starred: ("a * in front of a value", "write the elements one by one"),
    ast.Slice: ("a slice on its own", "write it in the brackets of a tile or a tuple"),
}
_LATER: dict[str, tuple[str, str]] = {
    "TypeAlias": ("a type alias", "write it outside of the kernel"),
    "TemplateStr": ("a t-string", _COMPUTED),
    "Interpolation": ("a t-string", _COMPUTED),
}
"""Of later versions of Python than the first that tilec runs on."""
REFUSED.update({getattr(ast, name): refusal for name, refusal in _LATER.items() if hasattr(ast, name)})
_LITERALS: dict[type[object], tuple[str, str]] = {
    bytes: ("a bytes literal", "write a string"),
    complex: ("a complex number", _COMPUTED),
    type(...): ("...", "write it as a statement of its own, or leave it out"),
}


def refuse(site: Site) -> NoReturn:
    """Stop at a construct that kernels do not have."""
    node = site.node
    found = _LITERALS.get(type(node.value)) if isinstance(node, ast.Constant) else REFUSED.get(type(node))
    what, hint = found or (f"`{site.text}`", "it is made of assignments, loops, branches and calls of tile.*")
    site.fail(f"a kernel cannot contain {what}", hint)
