"""The launcher as machine code of this processor: kept as bytes between processes, mapped once in each."""

from __future__ import annotations

import ctypes
import hashlib
import mmap
import platform
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tilec.backend.runtime.host.layout import accessors
from tilec.backend.runtime.host.unavailable import HostUnavailable

PROCESSORS = ("x86_64", "aarch64")
"""Those that have a launcher, by their names in `platform.machine`."""
_DIGEST_BYTES = 32
_OFFSETS = struct.Struct("<III")


@dataclass(frozen=True)
class MachineCode:
    """Code that runs at any address, and where its functions begin in it."""

    call: int
    vectorcall: int
    key: int
    text: bytes

    def to_bytes(self) -> bytes:
        body = _OFFSETS.pack(self.call, self.vectorcall, self.key) + self.text
        return hashlib.sha256(body).digest() + body

    @staticmethod
    def from_bytes(stored: bytes) -> MachineCode | None:
        """None if these are not the bytes that `to_bytes` gave."""
        digest, body = stored[:_DIGEST_BYTES], stored[_DIGEST_BYTES:]
        if hashlib.sha256(body).digest() != digest or len(body) < _OFFSETS.size:
            return None
        call, vectorcall, key = _OFFSETS.unpack_from(body)
        return MachineCode(call, vectorcall, key, body[_OFFSETS.size :])


def ir_text() -> str:
    """The whole launcher in LLVM IR."""
    return Path(__file__).with_name("launcher.ll").read_text("utf-8") + accessors()


def machine_code(load: Callable[[str], bytes | None], store: Callable[[str, bytes], None]) -> MachineCode:
    """The launcher for this machine: what `load` gives for its name, else newly compiled and given to `store`.

    Only compiling imports llvmlite. Raises HostUnavailable.
    """
    processor = platform.machine()
    if processor not in PROCESSORS:
        raise HostUnavailable(f"there is no native launcher for {processor} processors")
    text = ir_text()
    name = f"launcher-{processor}-{hashlib.sha256(text.encode()).hexdigest()[:32]}"
    stored = load(name)
    code = MachineCode.from_bytes(stored) if stored is not None else None
    if code is None:
        from tilec.backend.runtime.host.compilation import compile_launcher

        code = compile_launcher(text, processor)
        store(name, code.to_bytes())
    return code


@dataclass(frozen=True)
class MappedCode:
    """Addresses of the launcher's functions. They stay valid as long as the process."""

    call: int
    vectorcall: int
    key: int


_mappings: list[mmap.mmap] = []


def map_code(code: MachineCode) -> MappedCode:
    """Copy code to memory that can be executed, and no longer written. Raises HostUnavailable where that is forbidden."""
    memory = mmap.mmap(-1, len(code.text), mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, mmap.PROT_READ | mmap.PROT_WRITE)
    memory.write(code.text)
    base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    if protect(base, len(memory), mmap.PROT_READ | mmap.PROT_EXEC) != 0:
        raise HostUnavailable(f"memory cannot be made executable (errno {ctypes.get_errno()})")
    if platform.machine() == "aarch64":
        _clear_instruction_cache(base, base + len(memory))
    _mappings.append(memory)
    return MappedCode(base + code.call, base + code.vectorcall, base + code.key)


def _clear_instruction_cache(start: int, end: int) -> None:
    """For processors whose instruction cache does not see stores."""
    try:
        clear = ctypes.CDLL("libgcc_s.so.1")["__clear_cache"]
    except (OSError, AttributeError) as error:
        raise HostUnavailable(f"the instruction cache cannot be cleared: {error}") from error
    clear(ctypes.c_void_p(start), ctypes.c_void_p(end))
