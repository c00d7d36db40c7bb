"""One compilation of a kernel, to look at: its IR after each pass, its assembly, what it takes of the machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from tilec.artifact import Artifact
from tilec.backend.runtime.arguments import Facts
from tilec.diagnostics import TilecError, did_you_mean
from tilec.program import Program

if TYPE_CHECKING:
    from tilec.design import Design
    from tilec.driver import Compiled
    from tilec.resources import Resources


class Assembly(Mapping[str, str]):
    """Texts by name, each made when it is read."""

    def __init__(self, makers: Mapping[str, Callable[[], str]]) -> None:
        self._makers = makers

    def __repr__(self) -> str:
        return f"<Assembly: {', '.join(self._makers)}>"

    def __getitem__(self, name: str) -> str:
        make = self._makers.get(name)
        if make is None:
            raise TilecError(f"there is no assembly '{name}'", hint=did_you_mean(str(name), self._makers))
        return make()

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)

    def __contains__(self, name: object) -> bool:
        return name in self._makers


class Variant:
    """A kernel for one target and one class of tensors (`facts`, one for each view)."""

    def __init__(self, program: Program, target: str, facts: tuple[Facts, ...]) -> None:
        self._program = program
        self.target = target
        self.facts = facts

    def __repr__(self) -> str:
        return f"<tilec.Variant {self._program.signature.name} for {self.target}>"

    @cached_property
    def artifact(self) -> Artifact:
        """The code: from the cache, or compiled when it is first asked for."""
        return self._program.artifact(self.target, self.facts)

    @property
    def passed(self) -> Compiled:
        """The program after its passes; what comes behind them is made when it is read."""
        return self._program.passed(self.target, self.facts)

    @property
    def compiled(self) -> Compiled:
        """Every stage of the compilation. Raises TilecError for what the proof or the lowering refuses."""
        return self._program.compiled(self.target, self.facts)

    def ir(self, after: str | None = None) -> str:
        """The tile code of the program, or what it is after the pass named `after` ("pipeline").

        Raises TilecError for a pass that is not in the pipeline.
        """
        if after is None:
            return str(self._program.program_for(self.facts))
        passed = self.passed.module_after
        module = passed.get(after)
        if module is None:
            hint = did_you_mean(after, passed) if passed else "give the kernel a pipeline"
            raise TilecError(f"no pass '{after}' ran on {self._program.signature.name}", hint=hint)
        return str(module)

    @property
    def asm(self) -> Assembly:
        """``["llvm"]``, ``["ptx"]``, and ``["sass"]`` where ptxas and nvdisasm are installed."""
        return Assembly({"llvm": lambda: self.compiled.llvm, "ptx": lambda: self.ptx, "sass": self._sass})

    @property
    def ptx(self) -> str:
        """Raises TilecError for a kernel that was loaded from its machine code alone."""
        return self.artifact.ptx or self.compiled.ptx

    @property
    def resources(self) -> Resources:
        """Registers, spills, memory, stages and CTAs per multiprocessor."""
        from tilec.resources import Resources

        return Resources.of(self.artifact)

    def explain(self, shape: Mapping[str, int] | None = None) -> Design:
        """The design of the kernel's pipeline: what was chosen, why, and what was checked; ``print`` shows it.

        `shape` has an extent for each name in the types of its views. Raises TilecError for a kernel whose program is not at hand.
        """
        from tilec.design.explain import explain

        return explain(self._program, self.target, self.facts, shape)

    def save(self, path: str | Path) -> None:
        """Write the machine code to `path`, and beside it a JSON file with all that a launch needs: for `tilec.load`.

        ``gemm.cubin`` gets ``gemm.json`` beside it; the ending may be left out. Raises TilecError where there is no machine code.
        """
        from tilec.ahead_of_time import save

        name = Path(path).name if isinstance(path, str | Path) else ""  # pyright: ignore[reportUnnecessaryIsInstance]
        if not name or Path(name).suffix not in ("", ".cubin"):
            raise TilecError(f"{path!r} is no name of a cubin", hint='as in save("gemm.cubin")')
        save(self.artifact, Path(path).with_name(name if name.endswith(".cubin") else f"{name}.cubin"))

    def _sass(self) -> str:
        from tilec.backend.nvdisasm import disassemble

        if self.artifact.machine is None:
            raise TilecError(
                "there are no machine instructions: no ptxas has assembled this kernel",
                hint="pip install 'tilec[ptxas]'",
            )
        return disassemble(self.artifact.machine.cubin)
