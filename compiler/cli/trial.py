"""One execution of a kernel on random inputs, and its distance from the same program in float64."""

from __future__ import annotations

import importlib
import importlib.util
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import BlockArgument

from tilec.backend.reference import Array, round_bf16, run, run_float64
from tilec.backend.reference.arguments import is_written
from tilec.backend.reference.control import tile_counts
from tilec.backend.target import DEFAULT_TARGET, TARGETS
from tilec.diagnostics import SourceLocation, TilecError, fail, register_source
from tilec.dialects.tile import BF16, F16, F32, CastOp, DType, KernelOp, ScheduleOp, ViewType
from tilec.driver import compile_module, find_kernel

_LIMITS = {F32: 1e-4, F16: 1e-3, BF16: 8e-3}
"""Largest relative error (Frobenius) of a result that was rounded to a dtype once, after a sum in f32."""
_STORED = {F32: np.float32, F16: np.float16, BF16: np.float32}


def parse_shape(text: str) -> dict[str, int]:
    """``M=256,N=384`` as a dictionary."""
    shape: dict[str, int] = {}
    position = 1
    register_source("<shape>", text)
    for part in text.split(",") if text.strip() else ():
        name, equals, extent = (piece.strip() for piece in part.partition("="))
        place = SourceLocation("<shape>", 1, position + len(part) - len(part.lstrip()))
        if not equals or not name or not extent.isascii() or not extent.isdecimal():
            raise TilecError(
                f"expected a name and an extent, found '{part.strip()}'", place, "for example M=256,N=384,K=192"
            )
        if name in shape:
            raise TilecError(f"{name} is given twice", place)
        shape[name] = int(extent)
        position += len(part) + 1
    return shape


def has_gpu() -> bool:
    """Whether torch is installed and finds a GPU."""
    return importlib.util.find_spec("torch") is not None and bool(importlib.import_module("torch").cuda.is_available())


@dataclass(frozen=True)
class Result:
    """How far one output is from float64.

    `error`: the Frobenius norm of the difference over that of the exact result; `worst`: the largest difference of one
    element over the root mean square of the exact result, without which one wrong element of many would pass.
    """

    name: str
    error: float
    worst: float
    limit: float

    @property
    def worst_limit(self) -> float:
        """Normal numbers beyond ten times their deviation do not occur, and each is rounded by `limit` at most."""
        return 10 * self.limit

    @property
    def passed(self) -> bool:
        return self.error <= self.limit and self.worst <= self.worst_limit  # a NaN is not


@dataclass(frozen=True)
class Trial:
    """A kernel and an array for each of its views; outputs hold NaN until it has run."""

    module: ModuleOp
    kernel: KernelOp
    arrays: tuple[Array, ...]

    @staticmethod
    def prepare(module: ModuleOp, shape: dict[str, int], seed: int) -> Trial:
        """Random normal inputs. Each name in the types of the kernel's views needs an extent in `shape`."""
        kernel = find_kernel(module)
        arguments = kernel.body.block.args
        names = dict.fromkeys(dim for argument in arguments for dim in _dims(argument) if isinstance(dim, str))
        missing, unknown = [n for n in names if n not in shape], [n for n in shape if n not in names]
        if missing or unknown:
            problem = f"no extent for {', '.join(missing)}" if missing else f"{', '.join(unknown)}: no such extent"
            example = ",".join(f"{name}={shape.get(name, 256)}" for name in names)
            fail(
                kernel, f"{problem} in --shape", f"for example --shape {example}" if names else "its extents are fixed"
            )
        random = np.random.default_rng(seed)
        try:
            arrays = tuple(_random(argument, shape, random) for argument in arguments)
        except (MemoryError, ValueError) as error:  # ValueError: more bytes than there are addresses
            fail(kernel, f"arrays of this shape do not fit into memory: {error}")
        return Trial(module, kernel, arrays)

    @property
    def name(self) -> str:
        return self.kernel.sym_name.data

    def run_on_reference(self, pipeline: str, target: str | None, ctas: int | None = None) -> None:
        """Execute with NumPy what the passes make of the kernel; `ctas` bounds the grid of a persistent one."""
        module = compile_module(self.module, pipeline=pipeline, target=target, emit="tile").tile
        kernel = next((op for op in module.walk() if isinstance(op, KernelOp)), None)
        if kernel is None:
            fail(
                self.kernel,
                "NumPy executes tile code, and the pipeline leaves none: lower is in it",
                "leave lower out of --pipeline, or use --device=cuda",
            )
        schedule = next((op for op in kernel.walk() if isinstance(op, ScheduleOp)), None)
        if schedule is None and ctas is not None:
            fail(
                self.kernel,
                "--ctas bounds the grid of a persistent kernel; this one has a CTA for each tile",
                "add persistent to --pipeline",
            )
        run(module, self.arrays, ctas=self._default_ctas(kernel, schedule) if ctas is None else ctas)

    def _default_ctas(self, kernel: KernelOp, schedule: ScheduleOp | None) -> int | None:
        """So few that a CTA visits two tiles where there are two: going from one to the next is where errors hide."""
        if schedule is None or not isinstance(schedule.view, BlockArgument):
            return None
        tiles = prod(tile_counts(self.arrays[schedule.view.index], schedule.step))
        target = TARGETS[DEFAULT_TARGET if kernel.target is None else kernel.target.data]
        return max(1, min(target.sm_count, tiles // 2))

    def run_on_gpu(self, pipeline: str, target: str | None, ctas: int | None = None) -> None:
        """Compile, launch on tensors of the same layout, and bring the outputs back."""
        from tilec.kernel import compile

        if not has_gpu():
            raise TilecError("--device=cuda needs torch and a GPU that it can use", hint="pip install 'tilec[gpu]'")
        torch: Any = importlib.import_module("torch")
        arguments = self.kernel.body.block.args
        tensors = [torch.from_numpy(array).cuda() for array in self.arrays]
        for i, argument in enumerate(arguments):
            if _dtype(argument) is BF16:
                tensors[i] = tensors[i].to(torch.bfloat16)
        compile(self.module, pipeline=pipeline, target=target)(*tensors, max_ctas=ctas)
        torch.cuda.synchronize()
        for argument, array, tensor in zip(arguments, self.arrays, tensors, strict=True):
            if is_written(argument):
                array[...] = tensor.to(torch.float32).cpu().numpy()

    def compare(self) -> list[Result]:
        """The error of each output.

        Raises TilecError for a kernel that has none: there is nothing to compare.
        """
        if not any(is_written(argument) for argument in self.kernel.body.block.args):
            fail(
                self.kernel,
                "this kernel stores nothing: there is nothing to compare",
                hint="end with a tile.copy to a view",
            )
        exact = [array.astype(np.float64) for array in self.arrays]
        run_float64(self.module, exact)
        casts = {op.res.type.dtype for op in self.kernel.walk() if isinstance(op, CastOp)}
        return [
            _result(argument, array.astype(np.float64), wanted, {_dtype(argument), *casts})
            for argument, array, wanted in zip(self.kernel.body.block.args, self.arrays, exact, strict=True)
            if is_written(argument)
        ]


def _result(argument: BlockArgument, found: Array, wanted: Array, rounded_to: set[DType]) -> Result:
    difference = np.abs(found - wanted)
    size = np.linalg.norm(wanted) or 1.0
    return Result(
        argument.name_hint or f"argument {argument.index}",
        float(np.linalg.norm(difference) / size),
        float(difference.max(initial=0.0) / size * np.sqrt(wanted.size)),
        max(_LIMITS[dtype] for dtype in rounded_to),
    )


def _view(argument: BlockArgument) -> ViewType:
    assert isinstance(argument.type, ViewType)
    return argument.type


def _dtype(argument: BlockArgument) -> DType:
    return _view(argument).dtype


def _dims(argument: BlockArgument) -> list[int | str]:
    """Extents and their names; one that the type leaves open is called after its argument: ``A.0``."""
    hint = argument.name_hint or f"argument{argument.index}"
    return [f"{hint}.{i}" if dim is None else dim for i, dim in enumerate(_view(argument).dims)]


def _random(argument: BlockArgument, shape: dict[str, int], random: np.random.Generator) -> Array:
    view = _view(argument)
    extents = [shape[dim] if isinstance(dim, str) else dim for dim in _dims(argument)]
    slowest_first = view.order[::-1]
    memory = np.empty([extents[dim] for dim in slowest_first], _STORED[view.dtype])
    if is_written(argument):
        memory.fill(np.nan)
    else:
        values = random.standard_normal(memory.shape, np.float32)
        memory[...] = round_bf16(values) if view.dtype is BF16 else values
    return memory.transpose([slowest_first.index(dim) for dim in range(view.rank)])
