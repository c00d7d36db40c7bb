"""One execution of a kernel on random inputs, and its distance from the same program in float64."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import BlockArgument

from tilec.backend.protocol.extents import extent_names, extents_of
from tilec.backend.reference import Array, round_bf16
from tilec.backend.reference.arguments import is_written
from tilec.backend.simulator import Report, run, run_float64
from tilec.diagnostics import SourceLocation, TilecError, fail, register_source
from tilec.dialects.tile import BF16, F16, F32, CastOp, DType, KernelOp, ViewType
from tilec.driver import compile_module, find_kernel
from tilec.passes.synchronous import is_synchronous
from tilec.simulation import check_alike, grid_size, make_blank, never_written, scheduler
from tilec.source import parse_file
from tilec.variants import for_shape

if TYPE_CHECKING:
    from tilec.backend.emulator.launch import Emulation, OrderName

_LIMITS = {F32: 1e-4, F16: 1e-3, BF16: 8e-3}
"""Largest relative error (Frobenius) of a result that was rounded to a dtype once, after a sum in f32."""
_ITSELF = "this same kernel, run in float64: a wrong formula passes too; --like FILE compares with a program without a schedule"
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


def check_shape(kernel: KernelOp, shape: Mapping[str, int]) -> None:
    """Each name in the types of the kernel's views needs an extent, and nothing else has one."""
    names = extent_names(kernel)
    missing, unknown = [n for n in names if n not in shape], [n for n in shape if n not in names]
    if missing or unknown:
        problem = f"no extent for {', '.join(missing)}" if missing else f"{', '.join(unknown)}: no such extent"
        example = ",".join(f"{name}={shape.get(name, 256)}" for name in names)
        fail(kernel, f"{problem} in --shape", f"for example --shape {example}" if names else "its extents are fixed")


def tile_kernel(kernel: KernelOp, module: ModuleOp) -> KernelOp:
    """What the passes made of `kernel`."""
    found = next((op for op in module.walk() if isinstance(op, KernelOp)), None)
    if found is None:
        fail(kernel, "the pipeline leaves no tile code: lower is in it", "leave lower out of --pipeline")
    return found


def check_ctas(kernel: KernelOp, ctas: int | None) -> None:
    """Only a persistent kernel has a grid whose size can be chosen."""
    if ctas is not None and scheduler(kernel) is None:
        fail(
            kernel,
            "--ctas bounds the grid of a persistent kernel; this one has a CTA for each tile",
            "add persistent to --pipeline",
        )


def program_like(path: str) -> ModuleOp:
    """The program that ``--like`` names."""
    program = parse_file(path)
    find_kernel(program)
    return program


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
    unwritten: str | None = None
    """Which elements were never written, as far as that is known."""

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
    shape: Mapping[str, int]
    arrays: tuple[Array, ...]
    program: ModuleOp
    """Whose results, in float64, are compared with."""
    with_what: str | None = None
    """What that is, unless it is the kernel itself, which has no schedule yet."""

    @staticmethod
    def prepare(module: ModuleOp, shape: dict[str, int], seed: int, like: str | None = None) -> Trial:
        """Random normal inputs. Each name in the types of the kernel's views needs an extent in `shape`.

        `like` is the path of another program to compare with.
        """
        kernel = find_kernel(module)
        check_shape(kernel, shape)
        random = np.random.default_rng(seed)
        try:
            arrays = tuple(_random(argument, shape, random) for argument in kernel.body.block.args)
        except (MemoryError, ValueError) as error:  # ValueError: more bytes than there are addresses
            fail(kernel, f"arrays of this shape do not fit into memory: {error}")
        if like is None:
            return Trial(module, kernel, shape, arrays, module, None if is_synchronous(kernel) else _ITSELF)
        program = program_like(like)
        check_alike(kernel, find_kernel(program), arrays)
        return Trial(module, kernel, shape, arrays, program, like)

    @property
    def name(self) -> str:
        return self.kernel.sym_name.data

    def simulate(
        self,
        pipeline: str,
        target: str | None,
        ctas: int | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> Report:
        """Execute in the simulator what a launch would on a GPU; `ctas` bounds the grid of a persistent kernel."""
        program = for_shape(self.module, self.shape)
        module = compile_module(program, pipeline=pipeline, target=target, emit="tile").tile
        kernel = tile_kernel(self.kernel, module)
        check_ctas(kernel, ctas)
        return run(module, self.arrays, ctas=grid_size(kernel, self.arrays, ctas), progress=progress)

    def emulate(
        self, pipeline: str, target: str | None, ctas: int | None = None, order: OrderName = "fifo", seed: int = 0
    ) -> Emulation | None:
        """Execute the kernel's own PTX in the emulator; None if there is no tile. `ctas` bounds the grid of a persistent kernel."""
        from tilec.emulation import emulate_kernel

        program = for_shape(self.module, self.shape)
        compiled = compile_module(program, pipeline=pipeline, target=target, emit="ptx")
        kernel = tile_kernel(self.kernel, compiled.tile)
        check_ctas(kernel, ctas)
        ctas = grid_size(kernel, self.arrays, ctas)
        return emulate_kernel(
            compiled.abi, compiled.ptx, self.arrays, max_ctas=ctas, order=order, seed=seed, file=f"{self.name}.ptx"
        )

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
        run_float64(self.program, exact)
        kernels = (self.kernel, find_kernel(self.program))
        casts = {op.res.type.dtype for kernel in kernels for op in kernel.walk() if isinstance(op, CastOp)}
        return [
            _result(argument, array, wanted, {_dtype(argument), *casts})
            for argument, array, wanted in zip(self.kernel.body.block.args, self.arrays, exact, strict=True)
            if is_written(argument)
        ]


def _result(argument: BlockArgument, found: Array, wanted: Array, rounded_to: set[DType]) -> Result:
    unwritten = never_written(argument, found)
    difference = np.abs(found.astype(np.float64) - wanted)
    size = np.linalg.norm(wanted) or 1.0
    return Result(
        argument.name_hint or f"argument {argument.index}",
        float(np.linalg.norm(difference) / size),
        float(difference.max(initial=0.0) / size * np.sqrt(wanted.size)),
        max(_LIMITS[dtype] for dtype in rounded_to),
        None if unwritten is None else unwritten.message,
    )


def _view(argument: BlockArgument) -> ViewType:
    assert isinstance(argument.type, ViewType)
    return argument.type


def _dtype(argument: BlockArgument) -> DType:
    return _view(argument).dtype


def _random(argument: BlockArgument, shape: dict[str, int], random: np.random.Generator) -> Array:
    view = _view(argument)
    extents = extents_of(argument, shape)
    slowest_first = view.order[::-1]
    memory = np.empty([extents[dim] for dim in slowest_first], _STORED[view.dtype])
    if is_written(argument):
        make_blank(memory)
    else:
        values = random.standard_normal(memory.shape, np.float32)
        memory[...] = round_bf16(values) if view.dtype is BF16 else values
    return memory.transpose([slowest_first.index(dim) for dim in range(view.rank)])
