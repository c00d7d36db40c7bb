"""A compiled kernel on a device: loading, the grid, the parameters and the launch."""

# No postponed annotations: those of a record are read, and making them from text costs more than all else in here.

import ctypes
import math
import re
from collections.abc import Sequence
from typing import NamedTuple

from tilec.backend.abi import ExtentParam, GridRule, KernelABI, Param, PitchParam, PointerParam, TensorMapParam
from tilec.backend.releases import PTX_OF_RELEASE
from tilec.backend.runtime.arguments import LEGACY_STREAM, Argument, Placement
from tilec.backend.runtime.driver import Driver, DriverError, LaunchShape
from tilec.backend.runtime.tensor_map import MAP_BYTES, MapCache, map_fields
from tilec.backend.target import TARGETS
from tilec.diagnostics import TilecError

MAP_ALIGNMENT = 128
"""Of each tensor map in host memory: what CUDA 13 declares; the driver and a kernel's ``.param`` ask for 64."""
MAX_CTAS = (1 << 31) - 1

_CAPABILITIES = {divmod(int("".join(filter(str.isdigit, name))), 10): name for name in TARGETS}
"""Targets by compute capability: sm_100a is that of (10, 0)."""


def target_of(driver: Driver, device: int, wanted: str | None) -> str:
    """The target to compile for on `device`. Raises TilecError for a GPU that tilec has no target for, or not `wanted`."""
    major, minor = driver.capability(device)
    found = _CAPABILITIES.get((major, minor))
    if found is None:
        known = ", ".join(f"{target} ({a}.{b})" for (a, b), target in _CAPABILITIES.items())
        raise TilecError(f"device {device} has compute capability {major}.{minor}; tilec compiles for {known}")
    if wanted is not None and wanted != found:
        raise TilecError(
            f"the kernel was compiled for {wanted}, but device {device} is {found} (compute capability {major}.{minor})",
            hint=f"compile with target='{found}', or leave it out",
        )
    return found


def check_ptx_version(ptx: str, driver_version: tuple[int, int]) -> None:
    """Refuse PTX that is newer than what the driver's own compiler reads: that of the CUDA release it belongs to."""
    found = re.search(r"^\s*\.version\s+(\d+)\.(\d+)", ptx, re.MULTILINE)
    needed = int(found[1]) * 10 + int(found[2]) if found else 0
    if needed > max((v for release, v in PTX_OF_RELEASE.items() if release <= driver_version), default=0):
        enough = [release for release, v in PTX_OF_RELEASE.items() if v >= needed]
        least = "{}.{}".format(*min(enough)) if enough else "a later release"
        raise TilecError(
            f"PTX version {needed // 10}.{needed % 10} is too new for the installed driver "
            f"(CUDA {driver_version[0]}.{driver_version[1]}), which would have to compile it: it needs CUDA {least}",
            hint="install ptxas (pip install 'tilec[ptxas]'), so that machine code is loaded in place of PTX",
        )


class Loaded(NamedTuple):
    """A kernel in a device's context. `resident` is how many CTAs the device holds at a time."""

    function: object
    abi: KernelABI
    device: int
    resident: int


def load(driver: Driver, abi: KernelABI, device: int, *, cubin: bytes | None, ptx: str) -> Loaded:
    """Load machine code, or PTX where there is none, in the context of `device`, which is current."""
    if cubin is None:
        check_ptx_version(ptx, driver.version())
    function = driver.load(ptx.encode() if cubin is None else cubin, abi.name)
    driver.reserve_smem(function, abi.smem_bytes)
    per_sm = driver.occupancy(function, abi.threads, abi.smem_bytes)
    if abi.tmem_columns:
        # Tensor memory is not part of the driver's occupancy: a CTA too many would wait in its allocation.
        per_sm = min(per_sm, TARGETS[abi.target].tmem_columns // abi.tmem_columns)
    if per_sm < 1:
        raise TilecError(
            f"kernel {abi.name} does not fit a multiprocessor of device {device}: {abi.threads} threads, "
            f"{abi.smem_bytes} bytes of shared memory, {abi.tmem_columns} columns of tensor memory",
            hint="fewer stages or smaller tiles need less",
        )
    return Loaded(function, abi, device, driver.multiprocessors(device) * per_sm)


def count_ctas(rule: GridRule | None, shape: Sequence[int], resident: int, max_ctas: int | None) -> int:
    """CTAs of a launch over a view of `shape`; 0 where there is no tile.

    `resident` bounds a persistent grid, or `max_ctas` in its place.
    """
    if max_ctas is not None and max_ctas < 1:
        raise TilecError(f"max_ctas = {max_ctas}: a launch has at least one CTA")
    if rule is None:
        return 1
    tiles = math.prod(-(-extent // step) for extent, step in zip(shape, rule.step, strict=True))
    if rule.persistent:
        return min(tiles, resident if max_ctas is None else max_ctas)
    if max_ctas is not None:
        raise no_persistent_grid()
    if tiles > MAX_CTAS:
        raise TilecError(f"{tiles} tiles need as many CTAs, but a grid has at most {MAX_CTAS}", hint="use larger tiles")
    return tiles


def no_persistent_grid() -> TilecError:
    """The error of a bound on a grid that has as many CTAs as there are tiles."""
    return TilecError(
        "max_ctas bounds the grid of a persistent kernel; this one has a CTA for each tile",
        hint="add persistent to the pipeline",
    )


class ParameterBlock:
    """The parameters of a launch in host memory, and an array of pointers to them.

    Immutable once built, so that any number of threads may launch with one block. The driver copies the values at the
    launch.
    """

    def __init__(self, values: Sequence[bytes]) -> None:
        offsets: list[int] = []
        end = 0
        for value in values:
            alignment = MAP_ALIGNMENT if len(value) == MAP_BYTES else len(value)
            offsets.append(-(-end // alignment) * alignment)
            end = offsets[-1] + len(value)
        self._memory = ctypes.create_string_buffer(end + MAP_ALIGNMENT)
        base = -(-ctypes.addressof(self._memory) // MAP_ALIGNMENT) * MAP_ALIGNMENT
        self.addresses = tuple(base + offset for offset in offsets)
        for address, value in zip(self.addresses, values, strict=True):
            ctypes.memmove(address, value, len(value))
        self._pointers = (ctypes.c_void_p * max(len(values), 1))(*self.addresses)
        self.address = ctypes.addressof(self._pointers)


def check_assumptions(abi: KernelABI, arguments: Sequence[Argument]) -> None:
    """Refuse extents of which the kernel says that it would compute something wrong, or hang."""
    for assumed in abi.assumptions:
        view, dim, unit = abi.views[assumed.view].name, assumed.dim, assumed.step * assumed.multiple
        extent = arguments[assumed.view].shape[dim]
        if assumed.tiles(extent) % assumed.multiple:
            raise TilecError(
                f"kernel {abi.name} assumes a multiple of {assumed.multiple} tiles of {assumed.step} along dimension {dim} "
                f"of {view}, but that has {extent} elements: {assumed.tiles(extent)} tiles",
                hint=f"pad dimension {dim} of {view} to {-(-extent // unit) * unit} elements",
            )


def parameter_values(
    abi: KernelABI, device: int, arguments: Sequence[Argument], placements: Sequence[Placement], maps: MapCache
) -> list[bytes]:
    """The parameters of a kernel in order, little-endian as the GPU reads them; `device`'s context is current.

    Raises TilecError for arguments that the kernel does not expect.
    """
    check_assumptions(abi, arguments)
    spare = max((a.address for a in arguments), default=0) // MAP_ALIGNMENT * MAP_ALIGNMENT

    def value(parameter: Param) -> bytes:
        argument, placement = arguments[parameter.view], placements[parameter.view]
        match parameter:
            case TensorMapParam():
                fields = map_fields(
                    abi.views[parameter.view].name,
                    parameter,
                    argument,
                    placement,
                    stored=parameter.view in abi.outputs,
                    spare=spare,
                )
                return maps.get(device, fields)
            case PointerParam():
                return argument.address.to_bytes(8, "little")
            case ExtentParam():
                return argument.shape[parameter.dim].to_bytes(4, "little")
            case PitchParam():
                return placement.pitches[parameter.dim].to_bytes(8, "little")

    return [value(p) for p in abi.params]


def same_stream(one: int, other: int) -> bool:
    """The legacy default stream has two names: 0, and 1 as the array interfaces write it."""
    return one == other or {one, other} == {0, LEGACY_STREAM}


class Plan(NamedTuple):
    """A launch that is ready but for its stream. No CTAs: nothing is launched."""

    kernel: Loaded
    ctas: int
    parameters: ParameterBlock

    def launch(self, driver: Driver, stream: int, producers: Sequence[int]) -> None:
        """Launch in `stream` after what is in the `producers` streams by now."""
        if not self.ctas:
            return
        abi = self.kernel.abi
        with driver.current(self.kernel.device):
            for producer in producers:
                if not same_stream(stream, producer):
                    driver.order(stream, producer)
            shape = LaunchShape(self.ctas, abi.threads, abi.smem_bytes)
            try:
                driver.launch(self.kernel.function, shape, stream, self.parameters.address)
            except DriverError as error:
                raise self.refused(error) from error

    def refused(self, error: DriverError) -> TilecError:
        """The error of a launch that the driver refused."""
        abi = self.kernel.abi
        return TilecError(
            f"launch of kernel {abi.name} ({self.ctas} CTAs of {abi.threads} threads, {abi.smem_bytes} bytes of "
            f"shared memory) failed: {error.diagnostic.message}",
            hint=error.diagnostic.hint,
        )
