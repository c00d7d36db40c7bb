"""The part of the CUDA driver that a launch needs.

`CudaDriver` calls it through `cuda.bindings.driver`, which numba-cuda sits on as well, and always in the *primary* context
of a device: the one of torch and numba-cuda, so that streams, events and memory are shared with them. `Driver` is what the
rest of the runtime knows of it; tests put a recording one in its place.

Handles (functions, modules) are opaque objects. Streams are integers as the driver has them: 0 is the legacy default stream.
"""

from __future__ import annotations

import ctypes
import importlib
import threading
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

from tilec.backend.runtime.tensor_map import MAP_BYTES, MapFields
from tilec.diagnostics import TilecError


class DriverError(TilecError):
    """The CUDA driver refused a call. `code` is its name for the reason (``CUDA_ERROR_...``)."""

    def __init__(self, code: str, message: str, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.code = code


class LaunchShape(NamedTuple):
    """CTAs of the (one-dimensional) grid, threads of a CTA, bytes of dynamic shared memory, CTAs of a cluster."""

    ctas: int
    threads: int
    smem_bytes: int
    cluster: int = 1


class Driver(Protocol):
    """What the runtime asks of the CUDA driver. Every method raises `DriverError` if the driver refuses."""

    def version(self) -> tuple[int, int]:
        """The CUDA version that the installed driver implements, such as (13, 0)."""
        ...

    def capability(self, device: int) -> tuple[int, int]:
        """Compute capability, such as (9, 0)."""
        ...

    def multiprocessors(self, device: int) -> int: ...

    def device_of(self, address: int) -> int:
        """The device that holds the memory at `address`."""
        ...

    def current(self, device: int) -> AbstractContextManager[None]:
        """Make the device's primary context current in this thread, and restore the earlier one at the end."""
        ...

    def load(self, image: bytes, entry: str) -> object:
        """Load a cubin or PTX text into the current context; gives the function `entry`."""
        ...

    def reserve_smem(self, function: object, size: int) -> None:
        """Allow launches of `function` with `size` bytes of dynamic shared memory."""
        ...

    def occupancy(self, function: object, threads: int, smem_bytes: int) -> int:
        """CTAs of this shape that fit one multiprocessor at a time."""
        ...

    def encode(self, fields: MapFields) -> bytes:
        """The 128 bytes of a tensor map."""
        ...

    def launch(self, function: object, shape: LaunchShape, stream: int, parameters: int) -> None:
        """Launch in the current context. `parameters` is the address of an array of pointers, one a parameter."""
        ...

    def order(self, after: int, before: int) -> None:
        """Make stream `after` wait for all that is in stream `before` by now."""
        ...


_HINTS = {
    "CUDA_ERROR_NO_DEVICE": "run on a machine with a GPU",
    "CUDA_ERROR_NOT_INITIALIZED": "a process forked after CUDA was used cannot use it: start workers with 'spawn'",
    "CUDA_ERROR_ILLEGAL_ADDRESS": "an earlier kernel of this process failed; compute-sanitizer names it",
    "CUDA_ERROR_ILLEGAL_INSTRUCTION": "an earlier kernel of this process failed; compute-sanitizer names it",
    "CUDA_ERROR_LAUNCH_FAILED": "an earlier kernel of this process failed; compute-sanitizer names it",
    "CUDA_ERROR_NO_BINARY_FOR_GPU": "the kernel was compiled for another GPU: leave out target=",
    "CUDA_ERROR_UNSUPPORTED_PTX_VERSION": "install ptxas (pip install 'tilec[ptxas]'), so that PTX need not be loaded",
}
_UNUSED_PITCH = 16
_LOG_BYTES = 8192


class CudaDriver:
    """The real driver. Threads may share one object."""

    def __init__(self) -> None:
        self._cuda = _bindings()
        self._lock = threading.RLock()
        self._contexts: dict[int, Any] = {}
        self._attributes: dict[tuple[str, int], int] = {}
        self._check("cuInit", self._cuda.cuInit(0))

    def version(self) -> tuple[int, int]:
        number = int(self._check("cuDriverGetVersion", self._cuda.cuDriverGetVersion()))
        return number // 1000, number % 1000 // 10

    def capability(self, device: int) -> tuple[int, int]:
        return (
            self._attribute("CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR", device),
            self._attribute("CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR", device),
        )

    def multiprocessors(self, device: int) -> int:
        return self._attribute("CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT", device)

    def device_of(self, address: int) -> int:
        attribute = self._cuda.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
        return int(self._check("cuPointerGetAttribute", self._cuda.cuPointerGetAttribute(attribute, address)))

    def current(self, device: int) -> AbstractContextManager[None]:
        return _Current(self, self._context(device))

    def load(self, image: bytes, entry: str) -> object:
        options = self._cuda.CUjit_option
        log = bytearray(_LOG_BYTES)
        # The driver reads PTX up to a NUL; a cubin says itself how long it is.
        result = self._cuda.cuModuleLoadDataEx(
            image + b"\0",
            2,
            [options.CU_JIT_ERROR_LOG_BUFFER, options.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES],
            [log, _LOG_BYTES],
        )
        module = self._check("cuModuleLoadDataEx", result, log.partition(b"\0")[0].decode("utf-8", "replace"))
        return self._check("cuModuleGetFunction", self._cuda.cuModuleGetFunction(module, entry.encode()))

    def reserve_smem(self, function: object, size: int) -> None:
        attribute = self._cuda.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        self._check("cuFuncSetAttribute", self._cuda.cuFuncSetAttribute(function, attribute, size))

    def occupancy(self, function: object, threads: int, smem_bytes: int) -> int:
        name = "cuOccupancyMaxActiveBlocksPerMultiprocessor"
        return int(self._check(name, getattr(self._cuda, name)(function, threads, smem_bytes)))

    def encode(self, fields: MapFields) -> bytes:
        cuda = self._cuda
        # A row has no pitch, but the driver refuses a null array where it expects none.
        pitches = fields.pitches or (_UNUSED_PITCH,)
        tensor_map = self._check(
            "cuTensorMapEncodeTiled",
            cuda.cuTensorMapEncodeTiled(
                cuda.CUtensorMapDataType(fields.data_type),
                len(fields.extents),
                fields.address,
                [cuda.cuuint64_t(e) for e in fields.extents],
                [cuda.cuuint64_t(p) for p in pitches],
                [cuda.cuuint32_t(b) for b in fields.box],
                [cuda.cuuint32_t(1)] * len(fields.extents),
                cuda.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
                cuda.CUtensorMapSwizzle(fields.swizzle),
                cuda.CUtensorMapL2promotion(fields.l2_promotion),
                cuda.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
            ),
        )
        return ctypes.string_at(tensor_map.getPtr(), MAP_BYTES)

    def launch(self, function: object, shape: LaunchShape, stream: int, parameters: int) -> None:
        if shape.cluster > 1:
            self._launch_clusters(function, shape, stream, parameters)
            return
        result = self._cuda.cuLaunchKernel(
            function, shape.ctas, 1, 1, shape.threads, 1, 1, shape.smem_bytes, stream, parameters, 0
        )
        self._check("cuLaunchKernel", result)

    def _launch_clusters(self, function: object, shape: LaunchShape, stream: int, parameters: int) -> None:
        cluster = self._cuda.CUlaunchAttribute()
        cluster.id = self._cuda.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
        dimension = cluster.value.clusterDim
        dimension.x, dimension.y, dimension.z = shape.cluster, 1, 1
        config = self._cuda.CUlaunchConfig()
        config.gridDimX, config.gridDimY, config.gridDimZ = shape.ctas, 1, 1
        config.blockDimX, config.blockDimY, config.blockDimZ = shape.threads, 1, 1
        config.sharedMemBytes = shape.smem_bytes
        config.hStream = self._cuda.CUstream(stream)
        config.attrs = [cluster]
        config.numAttrs = 1
        self._check("cuLaunchKernelEx", self._cuda.cuLaunchKernelEx(config, function, parameters, 0))

    def function_handle(self, function: Any) -> int:
        """The number that C has for what `load` gave."""
        return int(function)

    def context_handle(self, device: int) -> int:
        """The number that C has for the primary context of a device."""
        return int(self._context(device))

    def error(self, what: str, status: int) -> DriverError:
        """What a function that was called in another way has answered."""
        code = self._cuda.CUresult(status).name
        return DriverError(code, f"the CUDA driver refused {what}: {code}", _HINTS.get(code))

    def order(self, after: int, before: int) -> None:
        cuda = self._cuda
        event = self._check("cuEventCreate", cuda.cuEventCreate(cuda.CUevent_flags.CU_EVENT_DISABLE_TIMING))
        try:
            self._check("cuEventRecord", cuda.cuEventRecord(event, before))
            self._check("cuStreamWaitEvent", cuda.cuStreamWaitEvent(after, event, 0))
        finally:
            self._check("cuEventDestroy", cuda.cuEventDestroy(event))

    def is_current(self, context: Any) -> bool:
        return int(self._check("cuCtxGetCurrent", self._cuda.cuCtxGetCurrent())) == int(context)

    def push(self, context: Any) -> None:
        self._check("cuCtxPushCurrent", self._cuda.cuCtxPushCurrent(context))

    def pop(self) -> None:
        self._check("cuCtxPopCurrent", self._cuda.cuCtxPopCurrent())

    def _context(self, device: int) -> Any:
        """The device's primary context, retained for the life of the process."""
        context = self._contexts.get(device)
        if context is None:
            with self._lock:
                if device not in self._contexts:
                    result = self._cuda.cuDevicePrimaryCtxRetain(self._device(device))
                    self._contexts[device] = self._check("cuDevicePrimaryCtxRetain", result)
                context = self._contexts[device]
        return context

    def _device(self, ordinal: int) -> Any:
        return self._check("cuDeviceGet", self._cuda.cuDeviceGet(ordinal))

    def _attribute(self, name: str, device: int) -> int:
        known = self._attributes.get((name, device))
        if known is None:
            attribute = getattr(self._cuda.CUdevice_attribute, name)
            result = self._cuda.cuDeviceGetAttribute(attribute, self._device(device))
            known = self._attributes[name, device] = int(self._check("cuDeviceGetAttribute", result))
        return known

    def _check(self, what: str, result: tuple[Any, ...], log: str = "") -> Any:
        """The value of a call of the bindings, which give a status and then at most one value."""
        status = result[0]
        if int(status) == 0:
            return result[1] if len(result) > 1 else None
        code: str = status.name
        message = f"the CUDA driver refused {what}: {code}"
        raise DriverError(code, f"{message}\n{log.strip()}" if log.strip() else message, _HINTS.get(code))


class _Current:
    """A context on top of this thread's stack, unless it is there already."""

    def __init__(self, driver: CudaDriver, context: Any) -> None:
        self._driver = driver
        self._context = context
        self._pushed = False

    def __enter__(self) -> None:
        if not self._driver.is_current(self._context):
            self._driver.push(self._context)
            self._pushed = True

    def __exit__(self, *exception: object) -> None:
        if self._pushed:
            self._driver.pop()


def _bindings() -> Any:
    try:
        return importlib.import_module("cuda.bindings.driver")
    except ImportError as error:
        raise TilecError(
            f"launching a kernel needs the CUDA bindings: {error}", hint="pip install 'tilec[gpu]'"
        ) from error


_shared: CudaDriver | None = None
_shared_lock = threading.RLock()


def cuda_driver() -> CudaDriver:
    """The driver of this process. Raises `TilecError` where there is no CUDA driver or no GPU."""
    global _shared
    with _shared_lock:
        if _shared is None:
            try:
                _shared = CudaDriver()
            except DriverError:
                raise
            except RuntimeError as error:  # the bindings found no libcuda
                raise TilecError(
                    f"there is no CUDA driver here: {error}", hint="run on a machine with a GPU"
                ) from error
        return _shared
