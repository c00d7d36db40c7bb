"""`HostLauncher`: warm calls of a kernel in machine code, and the table of what has been launched."""

from __future__ import annotations

import ctypes
import platform
import sys
import sysconfig
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tilec.backend.runtime.host.callable_type import bind
from tilec.backend.runtime.host.driver import DriverFunctions, address_of, driver_functions
from tilec.backend.runtime.host.guards import ABSENT
from tilec.backend.runtime.host.guards import Guard as GuardedVariable
from tilec.backend.runtime.host.layout import ClusterAttribute, Config, Entry, Guard, Slot, State
from tilec.backend.runtime.host.machine_code import MappedCode, machine_code, map_code
from tilec.backend.runtime.host.tensors import TensorLibrary, torch_tensors
from tilec.backend.runtime.host.unavailable import HostUnavailable

_CLUSTER_DIMENSION = 4
_BYTES_HEADER = 32
_FASTCALL_KEYWORDS = 0x0080 | 0x0002


@dataclass(frozen=True)
class LaunchEntry:
    """A launch but for its stream: handles of the function and its context, CTAs of the grid (0: there is nothing to launch),
    threads of a CTA, bytes of dynamic shared memory, address of the array of pointers to the parameters, and what keeps those
    alive."""

    function: int
    context: int
    ctas: int
    threads: int
    smem_bytes: int
    parameters: int
    owner: object
    cluster: int = 1


@dataclass(frozen=True)
class Host:
    """What launchers of a process share."""

    code: MappedCode
    tensors: TensorLibrary
    driver: DriverFunctions


def open_host(load: Callable[[str], bytes | None], store: Callable[[str, bytes], None]) -> Host:
    """Prepare native launches of torch's tensors; `load` and `store` keep machine code between processes.

    Raises HostUnavailable.
    """
    check_interpreter()
    return Host(map_code(machine_code(load, store)), torch_tensors(), driver_functions())


def check_interpreter() -> None:
    """Raises HostUnavailable where Python's objects are laid out in another way than the code expects."""
    if sys.platform != "linux" or sys.byteorder != "little" or ctypes.sizeof(ctypes.c_void_p) != 8:
        raise HostUnavailable("native launches need 64-bit Linux")
    if platform.python_implementation() != "CPython":
        raise HostUnavailable(f"native launches need CPython, not {platform.python_implementation()}")
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        raise HostUnavailable("native launches need the global interpreter lock, which this build of Python lacks")
    probe = b"01234567"
    if ctypes.string_at(id(probe) + _BYTES_HEADER, 8) != probe or _word(id(probe) + 8) != id(bytes):
        raise HostUnavailable("this build of Python lays out its objects in an unknown way")


def _word(address: int) -> int:
    return ctypes.c_uint64.from_address(address).value


class _MethodDef(ctypes.Structure):
    """``PyMethodDef``"""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    ]


class _Anchor(bytes):
    """`self` of the built-ins of a launcher: the address of its state, and the launcher, which must live as long as they."""

    launcher: HostLauncher


class _Remembered:
    """The memory of an entry."""

    __slots__ = ("_attribute", "_guard_array", "_guards", "_object", "_words", "entry", "hash")

    def __init__(self, key: bytes, what: LaunchEntry | Callable[[], object], guards: Sequence[GuardedVariable]) -> None:
        length = len(key) // 8 - 1
        self.hash = int.from_bytes(key[:8], "little")
        self._words = (ctypes.c_uint64 * length).from_buffer_copy(key, 8)
        self._object = what
        self._guards = tuple(guards)
        self._guard_array = (Guard * len(guards))(*map(_guard, self._guards))
        self.entry = Entry(
            owner=id(self),
            length=length,
            words=ctypes.addressof(self._words),
            guard_count=len(guards),
            guards=ctypes.addressof(self._guard_array),
        )
        if isinstance(what, LaunchEntry):
            self.entry.launch = id(what)
            self._fill(what)
        else:
            self.entry.allocate = id(what)

    def _fill(self, launch: LaunchEntry) -> None:
        self.entry.context, self.entry.function, self.entry.parameters = (
            launch.context,
            launch.function,
            launch.parameters,
        )
        config = Config(launch.ctas, 1, 1, launch.threads, 1, 1, launch.smem_bytes)
        if launch.cluster > 1:
            self._attribute = ClusterAttribute(id=_CLUSTER_DIMENSION, x=launch.cluster, y=1, z=1)
            config.attributes, config.attribute_count = ctypes.addressof(self._attribute), 1
        self.entry.config = config


def _guard(variable: GuardedVariable) -> tuple[int, int, int, int]:
    """The addresses in a `Guard`; 0 is null."""
    place, name, value = variable
    is_attribute = name is not None and not isinstance(place, dict)
    return id(place), 0 if name is None else id(name), 0 if value is ABSENT else id(value), int(is_attribute)


class HostLauncher:
    """Launches of one kernel that are known.

    Its function ``call`` is a built-in. It takes `inputs` tensors by position; if there are `outputs`, those as ``out=``: one
    tensor, or a tuple of exactly as many; and, if wanted, ``stream=``: a handle, or None for torch's current stream of the
    device of the first tensor. A call that was remembered is launched and gives what was given as ``out``, else None. Every
    other call becomes a call of ``miss`` with the same arguments: it gives or raises what that does. `miss` is expected to
    `remember` what it launches. Where the driver refuses a launch, ``error(status, launch)`` is called, which raises.

    Threads may share a launcher. At most `capacity` launches are remembered: with one more, the others are forgotten.
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        miss: Callable[..., object],
        error: Callable[[int, LaunchEntry], object],
        host: Host,
        capacity: int = 1024,
    ) -> None:
        self._capacity = capacity
        # A finalizer that runs in between may call the kernel.
        self._lock = threading.RLock()
        self._slot_count = 1 << (2 * capacity).bit_length()
        self._slots = (Slot * self._slot_count)()
        self._remembered: dict[bytes, _Remembered] = {}
        self._state = _state(host, inputs, outputs, miss, error)
        self._state.mask = self._slot_count - 1
        self._state.slots = ctypes.addressof(self._slots)
        self._miss, self._error, self._host = miss, error, host
        anchor = _Anchor(ctypes.addressof(self._state).to_bytes(8, "little"))
        anchor.launcher = self
        self.call: Callable[..., Any] = _builtin("call", host.code.call, anchor)
        self._key: Callable[..., bytes | None] = _builtin("key", host.code.key, anchor)

    def remember(self, tensors: Sequence[object], launch: LaunchEntry, guards: Sequence[GuardedVariable] = ()) -> bool:
        """From now on launch that for calls with tensors like these, inputs and then outputs (of the same addresses, devices,
        dtypes, shapes and strides), as long as all `guards` hold. False if such calls cannot be told from others: they stay
        with `miss`."""
        return self._put(self._key(*tensors), launch, guards)

    def remember_outputs(
        self, inputs: Sequence[object], allocate: Callable[[], object], guards: Sequence[GuardedVariable] = ()
    ) -> bool:
        """From now on, calls without ``out=`` and ``stream=`` with inputs like these make their outputs with `allocate`: one
        tensor, or a tuple of them. Such a call is then one with these as ``out=``, of `miss` as well."""
        return self._put(self._key(*inputs), allocate, guards)

    def _put(
        self, key: bytes | None, what: LaunchEntry | Callable[[], object], guards: Sequence[GuardedVariable]
    ) -> bool:
        if key is None:
            return False
        made = _Remembered(key, what, guards)
        with self._lock:
            if key not in self._remembered and len(self._remembered) >= self._capacity:
                self.clear()
            # Calls look the slots up between any two steps of this: the old entry lives until the new one is there.
            slot = self._slot(key, made.hash)
            slot.hash = made.hash
            slot.entry = ctypes.addressof(made.entry)
            self._remembered[key] = made
        return True

    def attach(self, instance: Any) -> None:
        """Make calls of `instance` calls of `call`: it is of a `callable_type`, and keeps this launcher alive from now on."""
        bind(instance, self._host.code.vectorcall, ctypes.addressof(self._state), self)

    def clear(self) -> None:
        """Forget all launches. Those that are under way in other threads are finished."""
        with self._lock:
            slots = (Slot * self._slot_count)()
            self._state.slots = ctypes.addressof(slots)
            # What is freed by this, no call can reach any more.
            self._slots, self._remembered = slots, {}

    def __len__(self) -> int:
        return len(self._remembered)

    def _slot(self, key: bytes, start: int) -> Slot:
        """That of this key, or the free one where it belongs. More than half of the slots are always free."""
        known = self._remembered.get(key)
        wanted = (None,) if known is None else (None, ctypes.addressof(known.entry))
        position = start % self._slot_count
        while self._slots[position].entry not in wanted:
            position = (position + 1) % self._slot_count
        return self._slots[position]


_method_defs: dict[tuple[str, int], _MethodDef] = {}
"""Built-in functions refer to theirs for as long as they live."""


def _builtin(name: str, function: int, anchor: _Anchor) -> Callable[..., Any]:
    definition = _method_defs.setdefault(
        (name, function), _MethodDef(name.encode(), function, _FASTCALL_KEYWORDS, None)
    )
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    return make(ctypes.addressof(definition), anchor, None)


_REQUIRES_GRAD, _OUT, _STREAM = (sys.intern(name) for name in ("requires_grad", "out", "stream"))
_OUT_KEYWORDS = (_OUT,)
_PYTHON_FUNCTIONS = {
    "vectorcall": "PyObject_Vectorcall",
    "getattr": "PyObject_GetAttr",
    "clear_error": "PyErr_Clear",
    "occurred": "PyErr_Occurred",
    "incref": "Py_IncRef",
    "decref": "Py_DecRef",
    "tuple_size": "PyTuple_Size",
    "tuple_item": "PyTuple_GetItem",
    "dict_get": "PyDict_GetItemWithError",
    "cell_get": "PyCell_Get",
    "long_from": "PyLong_FromLong",
    "long_as_pointer": "PyLong_AsVoidPtr",
    "bytes_from_string": "PyBytes_FromStringAndSize",
    "save_thread": "PyEval_SaveThread",
    "restore_thread": "PyEval_RestoreThread",
}


def _state(host: Host, inputs: int, outputs: int, miss: object, error: object) -> State:
    """A state without slots. It refers to `miss`, `error` and what `host` has, and keeps none of them alive."""
    tensors, driver = host.tensors, host.driver
    state = State(
        inputs=inputs,
        outputs=outputs,
        miss=id(miss),
        error=id(error),
        none=id(None),
        false=id(False),
        int_type=id(int),
        tuple_type=id(tuple),
        tensor_type=id(tensors.tensor),
        parameter_type=id(tensors.parameter),
        is_neg=id(tensors.is_neg),
        requires_grad_name=id(_REQUIRES_GRAD),
        out_name=id(_OUT),
        stream_name=id(_STREAM),
        out_keywords=id(_OUT_KEYWORDS),
        view_of=tensors.view_of,
        current_stream=tensors.current_stream,
        launch_kernel=driver.launch_kernel,
        get_context=driver.get_context,
        push_context=driver.push_context,
        pop_context=driver.pop_context,
        **{field: address_of(getattr(ctypes.pythonapi, name)) for field, name in _PYTHON_FUNCTIONS.items()},
    )
    if tensors.memory is not None:
        memory = tensors.memory
        state.impl, state.autograd, state.keys, state.lazy = memory.impl, memory.autograd, memory.keys, memory.lazy
    return state
