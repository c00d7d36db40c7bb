"""Warm calls: what has been launched once goes to the driver without Python, where the native launcher can be used.

`Warm` stands between a callable (a `Kernel`, a `JitFunction`) and its launcher. Where there is no launcher (no torch, an interpreter
that it does not know, a driver of a test) every call takes the way through Python, with the same result.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypeVar, cast

from tilec import log
from tilec.backend.runtime.arguments import imported
from tilec.backend.runtime.driver import CudaDriver, Driver
from tilec.backend.runtime.host.callable_type import callable_type
from tilec.backend.runtime.host.unavailable import HostUnavailable
from tilec.backend.runtime.launch import Plan
from tilec.program import recall, remember

if TYPE_CHECKING:
    from tilec.backend.runtime.host import Guard, Host, HostLauncher, LaunchEntry

_T = TypeVar("_T")
_AS_OPERATOR = "a kernel is compiled by tilec: wrap it with tilec.torch_op to have it in the graph"
_lock = threading.RLock()


class PreparedCall(NamedTuple):
    """What a call with certain tensors launches, and the streams on which these may still be written."""

    plan: Plan
    producers: tuple[int, ...]


class Warm:
    """The launches of one callable that take `inputs` tensors by position and `outputs` as ``out=``."""

    def __init__(self, inputs: int, outputs: int) -> None:
        self._inputs = inputs
        self._outputs = outputs
        self._called = False
        self._launcher: HostLauncher | None = None

    def takes(self, inputs: int, outputs: int) -> bool:
        """Whether it is for calls with so many tensors."""
        return (inputs, outputs) == (self._inputs, self._outputs)

    def remember(
        self,
        instance: object,
        tensors: Sequence[object],
        call: PreparedCall,
        driver: Driver,
        guards: Sequence[Guard] = (),
    ) -> None:
        """From now on calls of `instance` with tensors like these launch `call` at once."""
        if call.producers or not isinstance(driver, CudaDriver) or _carries_tangents():
            return
        if not self._called:
            # Most processes that call once call no more: the launcher is for those that do.
            self._called = True
            return
        launcher = self._opened(instance, driver)
        if launcher is None:
            return
        from tilec.backend.runtime.host import LaunchEntry

        kernel = call.plan.kernel
        entry = LaunchEntry(
            function=driver.function_handle(kernel.function),
            context=driver.context_handle(kernel.device),
            ctas=call.plan.ctas,
            threads=kernel.abi.threads,
            smem_bytes=kernel.abi.smem_bytes,
            parameters=call.plan.parameters.address,
            owner=call,
        )
        launcher.remember(tensors, entry, (*guards, *_no_tangents()))

    def remember_outputs(
        self, inputs: Sequence[object], allocate: Callable[[], object], guards: Sequence[Guard]
    ) -> None:
        """From now on calls that name no outputs make them with `allocate`, which gives one tensor or a tuple of them."""
        if self._launcher is not None and not _carries_tangents():
            self._launcher.remember_outputs(inputs, allocate, (*guards, *_no_tangents()))

    def _opened(self, instance: object, driver: CudaDriver) -> HostLauncher | None:
        if self._launcher is not None or imported("torch") is None or not isinstance(instance, tuple(_native)):
            return self._launcher
        host = _host()
        if host is not None:
            from tilec.backend.runtime.host import HostLauncher

            with _lock:
                if self._launcher is None:
                    self._launcher = HostLauncher(
                        self._inputs,
                        self._outputs,
                        cast("Any", instance).call_through_python,
                        lambda status, entry: _refused(driver, status, entry),
                        host,
                    )
                    self._launcher.attach(instance)
        return self._launcher


def native(cls: type[_T]) -> type[_T]:
    """The class whose instances a launcher can be attached to: one under `cls`, or `cls` itself where there can be none."""
    # What torch._dynamo.disable sets, which must not be imported for it.
    setattr(cls.__call__, "_torchdynamo_disable", True)  # noqa: B010
    setattr(cls.__call__, "_torchdynamo_disable_msg", _AS_OPERATOR)  # noqa: B010
    try:
        made = callable_type(cls)
    except HostUnavailable:
        return cls
    _native.append(made)
    return made


_native: list[type] = []

_F = TypeVar("_F", bound=Callable[..., Any])


def untraced(function: _F) -> _F:
    """The function, which `torch.compile` is to call as it is: it would follow the call into the compiler."""
    dynamo = imported("torch._dynamo")
    return function if dynamo is None else dynamo.disable(function, reason=_AS_OPERATOR)


def _carries_tangents() -> bool:
    """Inside of torch's forward-mode differentiation tensors may have tangents, which a kernel would lose."""
    forward = imported("torch.autograd.forward_ad")
    return forward is not None and forward._current_level >= 0


def _no_tangents() -> list[Guard]:
    """What is false while `_carries_tangents`."""
    forward = imported("torch.autograd.forward_ad")
    return [] if forward is None else [(vars(forward), "_current_level", forward._current_level)]


def _refused(driver: CudaDriver, status: int, entry: LaunchEntry) -> NoReturn:
    call = cast(PreparedCall, entry.owner)
    raise call.plan.refused(driver.error("cuLaunchKernelEx", status))


@cache
def _host() -> Host | None:
    if os.environ.get("TILEC_NATIVE_LAUNCH") == "0":
        return None
    from tilec.backend.runtime.host import open_host

    try:
        return open_host(lambda name: recall("host", name), lambda name, code: remember("host", name, code))
    except HostUnavailable as reason:
        log.about("launches", f"launches go through Python: {reason}")
        return None
