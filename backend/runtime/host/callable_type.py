"""Classes of Python whose instances are called without Python.

A call of an instance whose class defines ``__call__`` costs two calls of Python functions and two collections of arguments. An
instance of ``callable_type(C)`` has, beside all that C has, a place for the function that calls of it go to (the protocol
that built-in functions are called by, PEP 590); until `bind` fills it, they go to ``C.__call__``.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any, TypeVar, cast

from tilec.backend.runtime.host.unavailable import HostUnavailable

_TP_MEMBERS = 72
_T_PYSSIZET, _T_ULONGLONG, _READONLY = 19, 18, 1
_DEFAULT, _HAVE_VECTORCALL = 1 << 18, 1 << 11
_VECTORCALL_OFFSET = 56
"""Of ``tp_vectorcall_offset`` in ``PyTypeObject``."""


class _Member(ctypes.Structure):
    """``PyMemberDef``"""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("type", ctypes.c_int),
        ("offset", ctypes.c_ssize_t),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    ]


class _TypeSlot(ctypes.Structure):
    """``PyType_Slot``"""

    _fields_ = [("slot", ctypes.c_int), ("function", ctypes.c_void_p)]


class _TypeSpec(ctypes.Structure):
    """``PyType_Spec``"""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("basicsize", ctypes.c_int),
        ("itemsize", ctypes.c_int),
        ("flags", ctypes.c_uint),
        ("slots", ctypes.c_void_p),
    ]


_T = TypeVar("_T")
_kept: list[object] = []
"""Names and members of the types, to which older versions of Python refer."""


def callable_type(base: type[_T]) -> type[_T]:
    """A subclass of `base`, of the same name, that has no subclasses. `base` defines ``__call__``, and its instances can hold
    an attribute ``_launcher``; they are copied and pickled as `base` itself defines it, or not at all.

    Raises HostUnavailable.
    """
    if hasattr(sys, "gettotalrefcount"):
        raise HostUnavailable("debug builds of Python check types more strictly")
    place = base.__basicsize__
    members = (_Member * 4)(
        _Member(b"__vectorcalloffset__", _T_PYSSIZET, place, _READONLY, None),
        _Member(b"_vectorcall", _T_ULONGLONG, place, 0, None),
        _Member(b"_launcher_state", _T_ULONGLONG, place + 8, 0, None),
    )
    slots = (_TypeSlot * 2)(_TypeSlot(_TP_MEMBERS, ctypes.addressof(members)))
    name = f"{base.__module__}.{base.__qualname__}".encode()
    spec = _TypeSpec(name, place + 16, 0, _DEFAULT | _HAVE_VECTORCALL, ctypes.addressof(slots))
    _kept.append((members, slots, spec, name))
    make = ctypes.pythonapi.PyType_FromSpecWithBases
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.py_object]
    made = make(ctypes.addressof(spec), (base,))
    if ctypes.c_int64.from_address(id(made) + _VECTORCALL_OFFSET).value != place:
        raise HostUnavailable("this build of Python lays out its types in an unknown way")
    return cast(type[_T], made)


def bind(instance: Any, function: int, state: int, owner: object) -> None:
    """From now on calls of `instance` go to the function at that address, which finds `state`. `owner` keeps it alive."""
    # Another thread may be in a call that an earlier owner belongs to.
    earlier = getattr(instance, "_launcher", None)
    instance._launcher = owner if earlier is None else (owner, earlier)
    instance._launcher_state = state
    instance._vectorcall = function
