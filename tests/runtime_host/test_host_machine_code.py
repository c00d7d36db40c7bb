"""Making, storing and mapping the code; where it refuses."""

from __future__ import annotations

import ctypes
import mmap
import platform
import struct
import subprocess
import sys
import sysconfig

import pytest
from recording_host import mapped_code

from tilec.backend.runtime.host import HostUnavailable
from tilec.backend.runtime.host import machine_code as subject
from tilec.backend.runtime.host.compilation import compile_launcher, read_object
from tilec.backend.runtime.host.driver import driver_functions
from tilec.backend.runtime.host.launcher import check_interpreter
from tilec.backend.runtime.host.layout import ClusterAttribute, Config, View
from tilec.backend.runtime.host.machine_code import MachineCode, ir_text, machine_code, map_code
from tilec.backend.runtime.host.tensors import _ExchangeAPI  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize("processor", subject.PROCESSORS)
def test_the_code_needs_no_linker_on_any_processor(processor: str) -> None:
    code = compile_launcher(ir_text(), processor)
    assert len({code.call, code.vectorcall, code.key}) == 3
    assert max(code.call, code.vectorcall, code.key) < len(code.text) < 1 << 16


def test_code_is_compiled_once() -> None:
    stored: dict[str, bytes] = {}
    made = machine_code(stored.get, stored.__setitem__)
    ((name, code),) = stored.items()
    assert name.startswith(f"launcher-{platform.machine()}-")
    assert machine_code(lambda n: code if n == name else None, lambda n, c: pytest.fail("stored again")) == made


def test_stored_code_needs_no_llvmlite() -> None:
    stored: dict[str, bytes] = {}
    machine_code(stored.get, stored.__setitem__)
    program = (
        "import sys; from tilec.backend.runtime.host.machine_code import machine_code, map_code;"
        f"stored = {stored!r};"
        "map_code(machine_code(stored.get, stored.__setitem__));"
        "assert 'llvmlite' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize(
    "damage", [lambda b: b[:-1], lambda b: b"", lambda b: b[:40] + b"\xcc" + b[41:], lambda b: b + b"\0"]
)
def test_damaged_code_is_made_again(damage: object) -> None:
    stored: dict[str, bytes] = {}
    made = machine_code(stored.get, stored.__setitem__)
    ((name, good),) = stored.items()
    stored[name] = damage(good)  # type: ignore[operator]
    assert MachineCode.from_bytes(stored[name]) is None
    assert machine_code(stored.get, stored.__setitem__) == made
    assert stored[name] == good


def test_code_that_calls_something_is_refused() -> None:
    from llvmlite import binding

    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    target = binding.Target.from_triple("x86_64-unknown-linux-gnu").create_target_machine(reloc="pic")
    for text in (
        "declare void @f()\ndefine void @call() nounwind {\n call void @f()\n ret void\n}",
        "@x = global i32 0\ndefine void @call() nounwind {\n ret void\n}",
    ):
        with pytest.raises(HostUnavailable, match="this llvmlite makes code of the launcher that needs a linker"):
            read_object(target.emit_object(binding.parse_assembly(text)))


def test_other_processors_have_no_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    with pytest.raises(HostUnavailable, match="there is no native launcher for riscv64 processors"):
        machine_code(lambda name: None, lambda name, code: None)


def test_without_llvmlite_and_stored_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "llvmlite", None)
    with pytest.raises(HostUnavailable, match="llvmlite cannot be imported"):
        machine_code(lambda name: None, lambda name, code: None)


def test_memory_is_never_writable_and_executable() -> None:
    code = mapped_code()
    with open("/proc/self/maps") as maps:
        (line,) = [m for m in maps if _range(m)[0] <= code.call < _range(m)[1]]
    assert line.split()[1] == "r-xp"


def _range(line: str) -> tuple[int, int]:
    start, end = line.split()[0].split("-")
    return int(start, 16), int(end, 16)


def test_memory_that_cannot_be_executed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mmap, "PROT_EXEC", 1 << 30)
    with pytest.raises(HostUnavailable, match=r"memory cannot be made executable \(errno 22\)"):
        map_code(MachineCode(0, 0, 0, b"\xc3"))


def test_interpreters_without_the_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    check_interpreter()
    monkeypatch.setattr(sysconfig, "get_config_var", lambda name: name == "Py_GIL_DISABLED")
    with pytest.raises(HostUnavailable, match="need the global interpreter lock"):
        check_interpreter()


def test_other_interpreters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "python_implementation", lambda: "PyPy")
    with pytest.raises(HostUnavailable, match="need CPython, not PyPy"):
        check_interpreter()


def test_without_a_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str) -> object:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(ctypes, "CDLL", refuse)
    with pytest.raises(HostUnavailable, match="the CUDA driver cannot be called: libcuda"):
        driver_functions()


def test_structures_are_those_of_the_headers() -> None:
    """dlpack.h 1.3 and cuda.h 13.0 on a 64-bit machine, in the notation of `struct`."""
    assert ctypes.sizeof(View) == struct.calcsize("PiiiBBHPPQ") == 48
    assert (View.shape.offset, View.strides.offset, View.offset.offset) == (24, 32, 40)
    assert ctypes.sizeof(Config) == struct.calcsize("7I4xPPI4x") == 56
    assert (Config.stream.offset, Config.attributes.offset, Config.attribute_count.offset) == (32, 40, 48)
    assert ctypes.sizeof(ClusterAttribute) == 4 + 4 + 64
    assert ClusterAttribute.x.offset == 8
    assert _ExchangeAPI.dltensor_from_py_object_no_sync.offset == 16 + 3 * 8
    assert _ExchangeAPI.current_work_stream.offset == 16 + 4 * 8
