"""From the launcher's LLVM IR to machine code, with llvmlite."""

# llvmlite carries no types.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import struct
from typing import NamedTuple

from tilec.backend.runtime.host.machine_code import MachineCode
from tilec.backend.runtime.host.unavailable import HostUnavailable

_CPUS = {"x86_64": "x86-64", "aarch64": "generic"}


def compile_launcher(text: str, processor: str) -> MachineCode:
    """Code for every processor of a kind, which need not be that of this machine. Raises HostUnavailable."""
    try:
        from llvmlite import binding
    except ImportError as error:
        raise HostUnavailable(f"llvmlite cannot be imported: {error}") from error
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    triple = f"{processor}-unknown-linux-gnu"
    target = binding.Target.from_triple(triple).create_target_machine(
        cpu=_CPUS[processor], opt=2, reloc="pic", codemodel="small"
    )
    module = binding.parse_assembly(text)
    module.triple = triple
    module.data_layout = str(target.target_data)
    module.verify()
    options = binding.create_pipeline_tuning_options(speed_level=2)
    # Keys have some twenty words: wide loops would not pay for their set-up.
    options.loop_vectorization = options.slp_vectorization = options.loop_unrolling = False
    passes = binding.create_pass_builder(target, options)
    passes.getModulePassManager().run(module, passes)
    return read_object(target.emit_object(module))


class _Section(NamedTuple):
    """``Elf64_Shdr``"""

    name: int
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    item_size: int


_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_PROGBITS, _SYMTAB, _RELA, _NOBITS, _REL = 1, 2, 4, 8, 9
_TABLE_OFFSET, _TABLE_SHAPE = 0x28, 0x3A


def read_object(image: bytes) -> MachineCode:
    """The one section of a 64-bit ELF object that has nothing else to be loaded, and nothing to be linked.

    Raises HostUnavailable for every other.
    """
    (table,) = struct.unpack_from("<Q", image, _TABLE_OFFSET)
    item_size, count = struct.unpack_from("<HH", image, _TABLE_SHAPE)
    sections = [_Section(*_SECTION.unpack_from(image, table + i * item_size)) for i in range(count)]
    loaded = [i for i, s in enumerate(sections) if s.kind in (_PROGBITS, _NOBITS) and s.size]
    if len(loaded) != 1 or any(s.kind in (_RELA, _REL) and s.size for s in sections):
        raise HostUnavailable("this llvmlite makes code of the launcher that needs a linker")
    code = sections[loaded[0]]
    offsets: dict[str, int] = {}
    for symbols in sections:
        if symbols.kind == _SYMTAB:
            names = sections[symbols.link].offset
            for name, _, _, section, value, _ in _SYMBOL.iter_unpack(image[symbols.offset :][: symbols.size]):
                if section == loaded[0]:
                    start = names + name
                    offsets[image[start : image.index(b"\0", start)].decode()] = value
    text = image[code.offset : code.offset + code.size]
    return MachineCode(offsets["call"], offsets["vectorcall"], offsets["key"], text)
