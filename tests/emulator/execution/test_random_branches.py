"""Random programs of branches, loops, switches, calls and exits against an interpreter that runs one thread at a time."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

import pytest
from threads import NOTHING, ORDERS, OrderName, run

MASK = 0xFFFFFFFF
VARIABLES = 4
OPERATIONS = {
    "add.u32": lambda a, b: a + b,
    "sub.u32": lambda a, b: a - b,
    "mul.lo.u32": lambda a, b: a * b,
    "xor.b32": lambda a, b: a ^ b,
    "min.u32": min,
}
COMPARISONS = {"lt": lambda a, b: a < b, "ge": lambda a, b: a >= b, "ne": lambda a, b: a != b}


class Leave(Exception):
    """A thread exits."""


class Break(Exception):
    """A thread leaves the innermost loop."""


@dataclass
class Program:
    """Text, and the same as Python. A thread's variables are r0 to r3; `r8` to `r15` count the rounds of loops."""

    rng: Random
    labels: int = 0
    functions: list[str] = field(default_factory=list[str])
    bodies: list[list[tuple]] = field(default_factory=list[list[tuple]])

    def label(self) -> str:
        self.labels += 1
        return f"L{self.labels}"

    def block(self, depth: int, loops: int, called: int) -> list[tuple]:
        """A random list of statements, as tuples that say what they are."""
        return [self.statement(depth, loops, called) for _ in range(self.rng.randint(1, 4))]

    def statement(self, depth: int, loops: int, called: int) -> tuple:
        rng = self.rng
        kinds = ["set", "set", "guarded"]
        if depth:
            kinds += ["if", "if", "loop", "switch"]
        if loops:
            kinds.append("break")
        if called < len(self.bodies):
            kinds.append("call")
        if not called and rng.random() < 0.15:
            kinds.append("exit")
        kind = rng.choice(kinds)
        a, b, c = (rng.randrange(VARIABLES) for _ in range(3))
        test = rng.choice(list(COMPARISONS)), a, rng.choice([0, 3, 100, 2**31])
        match kind:
            case "set" | "guarded":
                return kind, rng.choice(list(OPERATIONS)), a, b, c, test
            case "if":
                return kind, test, self.block(depth - 1, loops, called), self.block(depth - 1, loops, called)
            case "loop":
                return kind, loops, rng.randrange(VARIABLES), self.block(depth - 1, loops + 1, called)
            case "switch":
                return kind, a, [self.block(depth - 1, loops, called) for _ in range(3)]
            case "call":
                return kind, rng.randrange(called, len(self.bodies)), a, b
            case _:
                return kind, (test[0] if kind == "break" else "lt", a, rng.choice([8, 2**20, 2**31]))

    # As text.

    def text(self, statements: list[tuple], ends: list[str]) -> list[str]:
        lines: list[str] = []
        for statement in statements:
            lines += self.lines(statement, ends)
        return lines

    def lines(self, statement: tuple, ends: list[str]) -> list[str]:
        match statement:
            case "set", operation, d, a, b, _:
                return [f"{operation} r{d}, r{a}, r{b};"]
            case "guarded", operation, d, a, b, test:
                return [compare(test), f"@p1 {operation} r{d}, r{a}, r{b};"]
            case "if", test, yes, no:
                otherwise, end = self.label(), self.label()
                return [
                    compare(test), f"@!p1 bra {otherwise};", *self.text(yes, ends), f"bra.uni {end};",
                    f"{otherwise}:", *self.text(no, ends), f"{end}:",
                ]  # fmt: skip
            case "loop", level, source, body:
                again, end, counter = self.label(), self.label(), f"r{8 + level}"
                return [
                    f"and.b32 {counter}, r{source}, 3;", f"{again}:", f"setp.eq.u32 p1, {counter}, 0;", f"@p1 bra {end};",
                    f"sub.u32 {counter}, {counter}, 1;", *self.text(body, [*ends, end]), f"bra {again};", f"{end}:",
                ]  # fmt: skip
            case "switch", source, cases:
                names, table, end = [self.label() for _ in cases], self.label(), self.label()
                lines = [
                    f"{table}: .branchtargets {', '.join([*names, end])};",
                    f"and.b32 r7, r{source}, 3;",
                    f"brx.idx r7, {table};",
                ]
                for name, case in zip(names, cases, strict=True):
                    lines += [f"{name}:", *self.text(case, ends), f"bra {end};"]
                return [*lines, f"{end}:"]
            case "call", number, d, a:
                return [f"call (r{d}), f{number}, (r{a});"]
            case "break", test:
                return [compare(test), f"@p1 bra {ends[-1]};"]
            case "exit", test:
                return [compare(test), "@p1 exit;"]
            case _:
                raise AssertionError(statement)

    # As Python.

    def execute(self, statements: list[tuple], r: list[int]) -> None:
        for statement in statements:
            match statement:
                case "set", operation, d, a, b, _:
                    r[d] = OPERATIONS[operation](r[a], r[b]) & MASK
                case "guarded", operation, d, a, b, test:
                    if holds(test, r):
                        r[d] = OPERATIONS[operation](r[a], r[b]) & MASK
                case "if", test, yes, no:
                    self.execute(yes if holds(test, r) else no, r)
                case "loop", _, source, body:
                    try:
                        for _ in range(r[source] & 3):
                            self.execute(body, r)
                    except Break:
                        pass
                case "switch", source, cases:
                    if (chosen := r[source] & 3) < 3:
                        self.execute(cases[chosen], r)
                case "call", number, d, a:
                    inner = [r[a], 1, 2, 3]
                    self.execute(self.bodies[number], inner)
                    r[d] = inner[0]
                case "break", test:
                    if holds(test, r):
                        raise Break
                case "exit", test:
                    if holds(test, r):
                        raise Leave
                case _:
                    raise AssertionError(statement)


def compare(test: tuple[str, int, int]) -> str:
    name, variable, constant = test
    return f"setp.{name}.u32 p1, r{variable}, {constant};"


def holds(test: tuple[str, int, int], r: list[int]) -> bool:
    name, variable, constant = test
    return COMPARISONS[name](r[variable], constant)


def make(seed: int) -> tuple[Program, list[list[tuple]], str, str]:
    """A program of two functions, the first of which may call the second, and three blocks with barriers between them."""
    program = Program(Random(seed))
    program.bodies = [[], []]
    top = ""
    for number in (1, 0):
        program.bodies[number] = program.block(2, 0, number + 1)
        lines = "\n".join(program.text(program.bodies[number], []))
        top += (
            f".func (.reg .b32 value) f{number}(.reg .b32 argument)\n{{\n.reg .b32 r<16>; .reg .pred p<2>;\n"
            f"mov.u32 r0, argument; mov.u32 r1, 1; mov.u32 r2, 2; mov.u32 r3, 3;\n{lines}\nmov.u32 value, r0;\nret;\n}}\n"
        )
    blocks = [program.block(3, 0, 0) for _ in range(3)]
    body = "mov.u32 r0, a; mov.u32 r1, t; mov.u32 r2, 5; mov.u32 r3, 9;\n"
    body += "\nbar.sync 0;\n".join("\n".join(program.text(block, [])) for block in blocks)
    return program, blocks, top, f"{body}\nadd.u32 d, r0, r1; xor.b32 d, d, r2; add.u32 d, d, r3;\n"


def expected(program: Program, blocks: list[list[tuple]], thread: int, word: int) -> int:
    r = [word, thread, 5, 9]
    try:
        for block in blocks:
            program.execute(block, r)
    except Leave:
        return NOTHING
    return ((r[0] + r[1] & MASK ^ r[2]) + r[3]) & MASK


@pytest.mark.parametrize(("order", "seed"), ORDERS)
@pytest.mark.parametrize("number", [*range(6), 68, 96, 139])
def test_random_programs(number: int, order: OrderName, seed: int) -> None:
    program, blocks, top, body = make(number)
    rng = Random(number)
    words = [rng.choice([i, rng.getrandbits(32)]) for i in range(72)]
    found, _ = run(body, words, top=top, order=order, seed=seed)
    assert found == [expected(program, blocks, thread, word) for thread, word in enumerate(words)]
