"""The structures that Python and the launcher's machine code share, and the text that lets the code read them."""

from __future__ import annotations

import ctypes
from ctypes import c_int32, c_uint32, c_uint64, c_void_p
from typing import Any


class View(ctypes.Structure):
    """``DLTensor`` of dlpack.h. The device's type is in the low half of `device`, its ordinal in the high one; of `dtype` the
    code is in bits 0-7, the bits in 8-15, the lanes in 16-31. Strides count elements; none: the tensor is contiguous."""

    _fields_ = [
        ("data", c_uint64),
        ("device", c_uint64),
        ("rank", c_uint32),
        ("dtype", c_uint32),
        ("shape", c_void_p),
        ("strides", c_void_p),
        ("offset", c_uint64),
    ]


class Config(ctypes.Structure):
    """``CUlaunchConfig`` of cuda.h."""

    _fields_ = [
        ("grid_x", c_uint32),
        ("grid_y", c_uint32),
        ("grid_z", c_uint32),
        ("block_x", c_uint32),
        ("block_y", c_uint32),
        ("block_z", c_uint32),
        ("smem_bytes", c_uint32),
        ("stream", c_void_p),
        ("attributes", c_void_p),
        ("attribute_count", c_uint32),
    ]


class ClusterAttribute(ctypes.Structure):
    """``CUlaunchAttribute`` of cuda.h with the value ``clusterDim``; `id` is CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION."""

    _fields_ = [
        ("id", c_uint32),
        ("_padding", c_uint32),
        ("x", c_uint32),
        ("y", c_uint32),
        ("z", c_uint32),
        ("_rest", ctypes.c_char * 52),
    ]


class Guard(ctypes.Structure):
    """``namespace[name]`` was `expected`, or the key was not there where that is null: a dict and two objects.

    Where `name` is null, `namespace` is the cell of a closure; where `attribute` is 1, an object that has an attribute `name`."""

    _fields_ = [("namespace", c_void_p), ("name", c_void_p), ("expected", c_void_p), ("attribute", c_uint64)]


class Entry(ctypes.Structure):
    """A launch that was remembered. `owner` is the object that holds all memory reached from here, this included; `launch` is
    told to `error`; `config` lacks its stream, and nothing is launched if it has no CTAs. Where the words are those of inputs
    only, `allocate` makes the outputs, and the rest is unused."""

    _fields_ = [
        ("owner", c_void_p),
        ("launch", c_void_p),
        ("length", c_uint64),
        ("words", c_void_p),
        ("guard_count", c_uint64),
        ("guards", c_void_p),
        ("allocate", c_void_p),
        ("context", c_void_p),
        ("function", c_void_p),
        ("parameters", c_void_p),
        ("config", Config),
    ]


class Slot(ctypes.Structure):
    """Of a hash table with open addressing and linear steps; one without an entry ends a search."""

    _fields_ = [("hash", c_uint64), ("entry", c_void_p)]


class State(ctypes.Structure):
    """All that a launcher knows."""

    _fields_ = [
        ("inputs", c_uint64),  # tensors of a call: those given by position, and those of `out`
        ("outputs", c_uint64),
        ("mask", c_uint64),  # slots - 1; their number is a power of two
        ("slots", c_void_p),
        # objects
        ("miss", c_void_p),
        ("error", c_void_p),
        ("none", c_void_p),
        ("false", c_void_p),
        ("int_type", c_void_p),
        ("tuple_type", c_void_p),
        ("tensor_type", c_void_p),
        ("parameter_type", c_void_p),
        ("is_neg", c_void_p),
        ("requires_grad_name", c_void_p),
        ("out_name", c_void_p),
        ("stream_name", c_void_p),
        ("out_keywords", c_void_p),
        # TensorMemory; impl = 0: tensors are asked through their methods
        ("impl", c_uint64),
        ("autograd", c_uint64),
        ("keys", c_uint64),
        ("lazy", c_uint64),
        # CPython's functions
        ("vectorcall", c_void_p),
        ("getattr", c_void_p),
        ("clear_error", c_void_p),
        ("occurred", c_void_p),
        ("incref", c_void_p),
        ("decref", c_void_p),
        ("tuple_size", c_void_p),
        ("tuple_item", c_void_p),
        ("dict_get", c_void_p),
        ("cell_get", c_void_p),
        ("long_from", c_void_p),
        ("long_as_pointer", c_void_p),
        ("bytes_from_string", c_void_p),
        ("save_thread", c_void_p),
        ("restore_thread", c_void_p),
        # DLPack's exchange API
        ("view_of", c_void_p),
        ("current_stream", c_void_p),
        # the driver
        ("launch_kernel", c_void_p),
        ("get_context", c_void_p),
        ("push_context", c_void_p),
        ("pop_context", c_void_p),
    ]


_TYPES: dict[Any, str] = {c_void_p: "ptr", c_uint64: "i64", c_uint32: "i32", c_int32: "i32"}


def accessors() -> str:
    """LLVM IR: for each structure S the type ``%S``, ``@S.item`` (address of an item of an array of them), ``@S.copy``, and
    for each field ``@S.field`` (its value) and ``@S.field.at`` (its address)."""
    lines = ["declare void @llvm.memcpy.inline.p0.p0.i64(ptr, ptr, i64, i1)"]
    for structure in (View, Config, Guard, Entry, Slot, State):
        name, size = structure.__name__, ctypes.sizeof(structure)
        lines += [
            f"%{name} = type {{ [{size} x i8] }}",
            f"define internal ptr @{name}.item(ptr %array, i64 %i) #1 {{",
            f"  %item = getelementptr %{name}, ptr %array, i64 %i",
            "  ret ptr %item",
            "}",
            f"define internal void @{name}.copy(ptr %to, ptr %from) #1 {{",
            f"  call void @llvm.memcpy.inline.p0.p0.i64(ptr align 8 %to, ptr align 8 %from, i64 {size}, i1 false)",
            "  ret void",
            "}",
        ]
        for field, ctype, *_ in structure._fields_:
            lines += [
                f"define internal ptr @{name}.{field}.at(ptr %structure) #1 {{",
                f"  %at = getelementptr i8, ptr %structure, i64 {getattr(structure, field).offset}",
                "  ret ptr %at",
                "}",
            ]
            if ctype in _TYPES:
                lines += [
                    f"define internal {_TYPES[ctype]} @{name}.{field}(ptr %structure) #1 {{",
                    f"  %at = getelementptr i8, ptr %structure, i64 {getattr(structure, field).offset}",
                    f"  %value = load {_TYPES[ctype]}, ptr %at",
                    f"  ret {_TYPES[ctype]} %value",
                    "}",
                ]
    return "\n".join(lines) + "\n"
