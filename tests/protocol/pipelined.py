"""What tests of whole pipelines share: a program through passes, and its simulation against the program's meaning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from tilec.backend import reference, simulator
from tilec.backend.protocol.inputs import integer_inputs
from tilec.backend.reference import Array
from tilec.backend.reference.arguments import is_written
from tilec.context import make_context
from tilec.diagnostics import collect
from tilec.driver import find_kernel, run_pass
from tilec.spec import parse_pipeline


def compiled(program: ModuleOp, pipeline: str) -> ModuleOp:
    """What a pipeline makes of a program, which stays as it is."""
    module = program.clone()
    with collect():
        for one in parse_pipeline(pipeline):
            run_pass(one, module, make_context())
    return module


@dataclass(frozen=True)
class Meaning:
    """A synchronous program, and what it computes from whole numbers: by shape, each computed once."""

    program: ModuleOp
    _known: dict[tuple[tuple[str, int], ...], tuple[list[Array], list[Array]]] = field(
        default_factory=dict[tuple[tuple[str, int], ...], tuple[list[Array], list[Array]]]
    )

    def __call__(self, extents: Mapping[str, int]) -> tuple[list[Array], list[Array]]:
        """Inputs (NaN in what is written) and results."""
        key = tuple(sorted(extents.items()))
        if key not in self._known:
            inputs = integer_inputs(find_kernel(self.program), extents)
            results = [array.copy() for array in inputs]
            reference.run(self.program, results)
            self._known[key] = inputs, results
        return self._known[key]

    def check(self, module: ModuleOp, extents: Mapping[str, int], what: str, ctas: int | None = None) -> None:
        """Simulate an asynchronous kernel: every element is what the program computes, to the last bit."""
        inputs, wanted = self(extents)
        # In the memory order that the inputs have: a TMA store may write past the end of a row.
        found = [array.copy(order="K") for array in inputs]
        simulator.run(module, found, ctas=ctas)
        for argument, got, right in zip(find_kernel(module).body.block.args, found, wanted, strict=True):
            if is_written(argument):
                name = f"{argument.name_hint} of {what}, {dict(extents)}, {ctas} CTAs"
                np.testing.assert_array_equal(got, right, err_msg=name)
