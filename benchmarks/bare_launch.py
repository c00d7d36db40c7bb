"""The CUDA driver's own launch of a kernel that was prepared by tilec: nothing is looked up, checked or converted.

`loop` is machine code that calls cuLaunchKernelEx and nothing else: what the driver alone takes. `call` is the same launch
from Python, through ctypes.
"""

from __future__ import annotations

import ctypes
from typing import Any

import llvmlite.binding as llvm

import tilec

_LOOP = """
define i32 @loop(ptr %launch, ptr %config, ptr %function, ptr %parameters, i32 %count) {
entry:
  br label %body
body:
  %i = phi i32 [ 0, %entry ], [ %next, %body ]
  %bad = phi i32 [ 0, %entry ], [ %worse, %body ]
  %status = call i32 %launch(ptr %config, ptr %function, ptr %parameters, ptr null)
  %worse = or i32 %bad, %status
  %next = add i32 %i, 1
  %more = icmp slt i32 %next, %count
  br i1 %more, label %body, label %done
done:
  ret i32 %worse
}
"""


class _Config(ctypes.Structure):
    """``CUlaunchConfig``"""

    _fields_ = (
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared_bytes", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.c_void_p),
        ("attribute_count", ctypes.c_uint),
    )


class BareLaunch:
    """The launch that a call of `kernel` with `tensors` makes, in `stream`. It lives as long as the tensors."""

    def __init__(self, kernel: tilec.Kernel, tensors: tuple[Any, ...], stream: int) -> None:
        self._plan = kernel.prepared(*tensors)[0].plan
        abi, function = self._plan.kernel.abi, self._plan.kernel.function
        self._config = _Config((self._plan.ctas, 1, 1), (abi.threads, 1, 1), abi.smem_bytes, stream, None, 0)
        self._driver = ctypes.CDLL("libcuda.so.1")
        self._launch = self._driver.cuLaunchKernelEx
        self.arguments = (
            ctypes.byref(self._config),
            ctypes.c_void_p(int(function)),  # type: ignore[call-overload]
            ctypes.c_void_p(self._plan.parameters.address),
            None,
        )
        """Of `call`."""
        self.call = self._launch
        self._loop = _compiled_loop()

    def loop(self, count: int) -> None:
        """`count` launches."""
        address = ctypes.cast(self._launch, ctypes.c_void_p)
        config, function, parameters, _ = self.arguments
        if self._loop(address, config, function, parameters, count):
            raise SystemExit("the driver refused a bare launch")


_engines: list[Any] = []
"""Machine code lives as long as its engine."""


def _compiled_loop() -> Any:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    module = llvm.parse_assembly(_LOOP)
    engine = llvm.create_mcjit_compiler(module, llvm.Target.from_default_triple().create_target_machine(opt=2))
    engine.finalize_object()
    _engines.append(engine)
    pointer = ctypes.c_void_p
    kind = ctypes.CFUNCTYPE(ctypes.c_int, pointer, pointer, pointer, pointer, ctypes.c_int)
    return kind(engine.get_function_address("loop"))
