"""Run the hardware suite of the emulator on this machine's GPU and keep what the kernels wrote.

    python tests/gpu/record_hardware.py FOLDER [--family NAME ...] [--case NAME ...]
    python tests/gpu/record_hardware.py FOLDER --onto tests/data/hardware

writes FOLDER/h200.npz (the arrays that each case changed, by `case/argument`) and FOLDER/h200.json (the machine, and how each
case ended); the second form runs what an earlier recording lacks. Needs NumPy and cuda-bindings, no compiler: the driver
assembles the PTX. A family runs in a child process; a case that faults or hangs ends its process, is marked, and the rest of
the family goes on in another. Each case is launched twice: a result that differs is no evidence, and is marked `unstable`.
"""

from __future__ import annotations

import argparse
import ctypes
import hashlib
import importlib
import json
import platform
import re
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any, Protocol

import numpy as np

HERE = Path(__file__).resolve()
sys.path.insert(0, str(HERE.parents[1] / "emulator" / "hardware"))

from suite import all_cases  # noqa: E402
from suite.cases import Argument, Array, Case, MapArgument, array_of  # noqa: E402

STALL_SECONDS = 45.0
"""What a case may take in a child process, its start included; then the process is ended."""
MAP_BYTES = 128
_DATA_TYPES = {"u1": 0, "u2": 1, "u4": 2, "i4": 3, "u8": 4, "i8": 5, "f2": 6, "f4": 7, "f8": 8}
_DATA_TYPES |= {"bf16": 9, "f32_ftz": 10, "tf32": 11}
_SWIZZLES = ("32B", "64B", "128B", "128B_ATOM_32B", "128B_ATOM_32B_FLIP_8B", "128B_ATOM_64B")
_INTERLEAVES = ("16B", "32B")


class Refused(Exception):
    """The driver took a module, a tensor map or a launch for wrong; the context is still good."""


class Launcher(Protocol):
    """What runs a case: the GPU, or a stand-in."""

    def launch(self, case: Case, arguments: Sequence[Argument]) -> None:
        """Run the case; arrays are updated in place. Raises Refused, or any other exception where the context is lost."""
        ...


class Gpu:
    """The first GPU, through cuda-bindings, in its primary context."""

    def __init__(self) -> None:
        self.cuda: Any = importlib.import_module("cuda.bindings.driver")
        self._call("cuInit", 0)
        self.device = self._call("cuDeviceGet", 0)
        self._call("cuCtxSetCurrent", self._call("cuDevicePrimaryCtxRetain", self.device))

    def launch(self, case: Case, arguments: Sequence[Argument]) -> None:
        function = self._load(case)
        memory: list[tuple[int, Array]] = []
        try:
            values = [self._value(argument, memory) for argument in arguments]
            pointers = (ctypes.c_void_p * len(values))(*(address for address, _ in values))
            self._start(case, function, ctypes.addressof(pointers))
            self._call("cuCtxSynchronize")
            for address, array in memory:
                self._call("cuMemcpyDtoH", array.ctypes.data, address, array.nbytes)
        finally:
            for address, _ in memory:
                self.cuda.cuMemFree(address)

    def machine(self) -> dict[str, str]:
        """The card, its driver, and the versions of what launched."""
        version = int(self._call("cuDriverGetVersion"))
        name = bytes(self._call("cuDeviceGetName", 128, self.device)).partition(b"\0")[0].decode()
        return {
            "card": name,
            "cuda": f"{version // 1000}.{version % 1000 // 10}",
            "driver": _kernel_driver(),
            "date": datetime.now(UTC).strftime("%Y-%m-%d"),
            "python": platform.python_version(),
            "numpy": np.__version__,
            "cuda-bindings": metadata.version("cuda-bindings"),
        }

    def _load(self, case: Case) -> Any:
        option = self.cuda.CUjit_option
        log = bytearray(8192)
        options = [option.CU_JIT_ERROR_LOG_BUFFER, option.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES]
        status, module = self.cuda.cuModuleLoadDataEx(case.ptx.encode() + b"\0", 2, options, [log, len(log)])
        if int(status):
            raise Refused(f"cuModuleLoadDataEx: {status.name}: {log.partition(bytes(1))[0].decode(errors='replace')}")
        function = self._call("cuModuleGetFunction", module, case.entry.encode())
        if case.dynamic_smem > 48 * 1024:
            attribute = self.cuda.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            self._call("cuFuncSetAttribute", function, attribute, case.dynamic_smem)
        return function

    def _start(self, case: Case, function: Any, parameters: int) -> None:
        config = self.cuda.CUlaunchConfig()
        config.gridDimX, config.gridDimY, config.gridDimZ = case.grid
        config.blockDimX, config.blockDimY, config.blockDimZ = case.block
        config.sharedMemBytes = case.dynamic_smem
        config.hStream = self.cuda.CUstream(0)
        if case.cluster != (1, 1, 1):
            cluster = self.cuda.CUlaunchAttribute()
            cluster.id = self.cuda.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
            dimension = cluster.value.clusterDim
            dimension.x, dimension.y, dimension.z = case.cluster
            config.attrs = [cluster]
            config.numAttrs = 1
        self._call("cuLaunchKernelEx", config, function, parameters, 0)

    def _value(self, argument: Argument, memory: list[tuple[int, Array]]) -> tuple[int, Any]:
        """The address of the parameter's bytes, and what keeps them alive."""
        if isinstance(argument, np.generic):
            held = ctypes.create_string_buffer(argument.tobytes(), argument.nbytes)
            return ctypes.addressof(held), held
        array = array_of(argument)
        assert array is not None and array.flags.c_contiguous
        address = int(self._call("cuMemAlloc", max(array.nbytes, 16)))
        memory.append((address, array))
        self._call("cuMemcpyHtoD", address, array.ctypes.data, array.nbytes)
        if isinstance(argument, MapArgument):
            encoded = self._encode(argument, address)
            return int(encoded.getPtr()), encoded
        held = ctypes.c_uint64(address)
        return ctypes.addressof(held), held

    def _encode(self, argument: MapArgument, address: int) -> Any:
        cuda = self.cuda
        array = argument.array
        shape = argument.shape or array.shape
        strides = argument.strides or array.strides[:-1]
        steps = argument.element_strides or (1,) * array.ndim
        kind = _DATA_TYPES[argument.dtype or array.dtype.str[1:]]
        tensor = (
            cuda.CUtensorMapDataType(kind),
            array.ndim,
            address,
            [cuda.cuuint64_t(n) for n in reversed(shape)],
            [cuda.cuuint64_t(n) for n in reversed(strides)] or [cuda.cuuint64_t(16)],
        )
        layout = (
            [cuda.cuuint32_t(n) for n in reversed(steps)],
            cuda.CUtensorMapInterleave(_place(_INTERLEAVES, argument.interleave)),
            cuda.CUtensorMapSwizzle(_place(_SWIZZLES, argument.swizzle)),
            cuda.CUtensorMapL2promotion(0),
            cuda.CUtensorMapFloatOOBfill(int(argument.oob == "nan")),
        )
        if argument.im2col is None:
            status, encoded = cuda.cuTensorMapEncodeTiled(
                *tensor, [cuda.cuuint32_t(n) for n in reversed(argument.box)], *layout
            )
        else:
            columns = argument.im2col
            corners = columns.lower[::-1], columns.upper[::-1]
            status, encoded = cuda.cuTensorMapEncodeIm2col(*tensor, *corners, columns.channels, columns.pixels, *layout)
        if int(status):
            raise Refused(f"the tensor map: {status.name}")
        return encoded

    def _call(self, name: str, *arguments: Any) -> Any:
        result = getattr(self.cuda, name)(*arguments)
        if int(result[0]) == 0:
            return result[1] if len(result) > 1 else None
        refusal = name.startswith(("cuLaunch", "cuFunc", "cuModule"))
        raise (Refused if refusal else RuntimeError)(f"{name}: {result[0].name}")


def _place(names: Sequence[str], name: str | None) -> int:
    return 0 if name is None else names.index(name) + 1


def _kernel_driver() -> str:
    try:
        found = re.search(r"\d+\.\d+\.\d+", Path("/proc/driver/nvidia/version").read_text())
    except OSError:
        found = None
    return "unknown" if found is None else found[0]


def digest(case: Case) -> str:
    """What identifies a case: its text, its launch and its arguments."""
    found = hashlib.sha256(case.ptx.encode())
    found.update(repr((case.grid, case.block, case.cluster, case.dynamic_smem)).encode())
    for argument in case.seeded():
        array = array_of(argument)
        found.update(
            argument.tobytes() if isinstance(argument, np.generic) else b"" if array is None else array.tobytes()
        )
        if isinstance(argument, MapArgument):
            fields = {name: value for name, value in vars(argument).items() if name != "array"}
            found.update(repr(fields).encode())
    return found.hexdigest()[:16]


def record(case: Case, launcher: Launcher, folder: Path) -> None:
    """Launch a case twice; write `<case>.npz` with the arrays it changed and `<case>.json` with how it ended."""
    outcome = {"status": "ran", "digest": digest(case), "message": ""}
    changed: dict[str, Array] = {}
    try:
        first, second = case.seeded(), case.seeded()
        launcher.launch(case, first)
        launcher.launch(case, second)
        for i, (before, once, twice) in enumerate(zip(case.seeded(), first, second, strict=True)):
            old, new, again = array_of(before), array_of(once), array_of(twice)
            if old is None or new is None or again is None:
                continue
            if new.tobytes() != again.tobytes():
                outcome |= {"status": "unstable", "message": f"argument {i} differs between two launches"}
            if new.tobytes() != old.tobytes():
                changed[str(i)] = new
    except Refused as refusal:
        outcome |= {"status": "refused", "message": str(refusal)}
    except Exception as error:
        outcome |= {"status": "failed", "message": str(error)}
        raise
    finally:
        np.savez_compressed(folder / f"{case.name}.npz", **changed)  # type: ignore[arg-type]
        (folder / f"{case.name}.json").write_text(json.dumps(outcome))


Attempt = Callable[[Sequence[str]], str]
"""Runs cases in a new process; gives "" if it ended well, or why not."""


def supervise(names: Sequence[str], folder: Path, attempt: Attempt) -> None:
    """Run cases until each has an outcome in `folder`.

    Where a process ends early and no case says that it failed, the one that it was at is given up.
    """
    left = list(names)
    while left:
        reason = attempt(left)
        ended = [name for name in left if (folder / f"{name}.json").exists()]
        waiting = [name for name in left if name not in ended]
        explained = any(json.loads((folder / f"{name}.json").read_text())["status"] == "failed" for name in ended)
        if waiting and not explained:
            status = "hung" if reason.startswith("no end") else "failed"
            outcome = {"status": status, "digest": "", "message": reason or "no result"}
            (folder / f"{waiting.pop(0)}.json").write_text(json.dumps(outcome))
        left = waiting


def child(names: Sequence[str], folder: Path) -> None:
    """What a child process does: the cases in turn, until one loses the context."""
    gpu = Gpu()
    (folder / "machine").write_text(json.dumps(gpu.machine()))
    cases = all_cases()
    for name in names:
        record(cases[name], gpu, folder)


def in_process(folder: Path, stall: float = STALL_SECONDS) -> Attempt:
    def attempt(names: Sequence[str]) -> str:
        command = [sys.executable, str(HERE), str(folder), "--child", *names]
        with (folder / "errors").open("w+") as errors:
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors)
            done, since = -1, time.monotonic()
            while process.poll() is None:
                time.sleep(0.05)
                count = sum((folder / f"{name}.json").exists() for name in names)
                if count != done:
                    done, since = count, time.monotonic()
                elif time.monotonic() - since > stall:
                    process.kill()
                    process.wait()
                    return f"no end within {stall:.0f} s"
            errors.seek(0)
            return "" if process.returncode == 0 else f"exit {process.returncode}: {errors.read().strip()[-500:]}"

    return attempt


def merge(names: Sequence[str], folder: Path, target: Path, earlier: Path | None = None) -> dict[str, Any]:
    """All results of `folder` as `h200.npz` and `h200.json` of `target`; gives what the latter holds.

    Cases of the suite that did not run keep what the recording in `earlier` has of them.
    """
    kept, arrays = recording(earlier)
    current = all_cases()
    kept = {name: outcome for name, outcome in kept.items() if name in current and name not in names}
    arrays = {key: array for key, array in arrays.items() if key.rpartition("/")[0] in kept}
    outcomes: dict[str, Any] = {}
    for name in names:
        outcomes[name] = json.loads((folder / f"{name}.json").read_text())
        if outcomes[name]["status"] == "ran":
            with np.load(folder / f"{name}.npz") as found:
                arrays |= {f"{name}/{index}": found[index] for index in found.files}
    machine = folder / "machine"
    report = {"machine": json.loads(machine.read_text()) if machine.exists() else {}, "cases": kept | outcomes}
    np.savez_compressed(target / "h200.npz", **arrays)  # type: ignore[arg-type]
    (target / "h200.json").write_text(json.dumps(report, indent=1) + "\n")
    return report


def recording(folder: Path | None) -> tuple[dict[str, Any], dict[str, Array]]:
    """How the cases of a recording ended, and its arrays; nothing where there is none."""
    if folder is None or not (folder / "h200.json").exists():
        return {}, {}
    with np.load(folder / "h200.npz") as found:
        return json.loads((folder / "h200.json").read_text())["cases"], {key: found[key] for key in found.files}


def main() -> None:
    parser = argparse.ArgumentParser(description="Record what the hardware suite of the emulator writes on a GPU.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--family", nargs="*", help="only these families")
    parser.add_argument("--case", nargs="*", help="only these cases")
    parser.add_argument(
        "--onto", type=Path, help="a recording of the same machine: run what it lacks, or has of an older text"
    )
    parser.add_argument("--child", nargs="*", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child is not None:
        child(options.child, options.folder)
        return
    work = options.folder / "cases"
    work.mkdir(parents=True, exist_ok=True)
    for stale in work.iterdir():
        stale.unlink()
    families: dict[str, list[str]] = {}
    known = {name: outcome["digest"] for name, outcome in recording(options.onto)[0].items()}
    for case in all_cases().values():
        if case.name in known and known[case.name] in ("", digest(case)):
            continue
        if (not options.family or case.family in options.family) and (not options.case or case.name in options.case):
            families.setdefault(case.family, []).append(case.name)
    for family, names in families.items():
        started = time.monotonic()
        supervise(names, work, in_process(work))
        if not (work / "machine").exists():
            sys.exit(json.loads((work / f"{names[0]}.json").read_text())["message"])
        statuses = [json.loads((work / f"{name}.json").read_text())["status"] for name in names]
        print(f"{family}: {statuses.count('ran')} of {len(names)} in {time.monotonic() - started:.1f} s", flush=True)
    report = merge([name for names in families.values() for name in names], work, options.folder, options.onto)
    for name, outcome in report["cases"].items():
        if outcome["status"] != "ran":
            print(f"{name}: {outcome['status']}: {outcome['message'].splitlines()[-1:]}")
    print(f"{(options.folder / 'h200.npz').stat().st_size} bytes", report["machine"])


if __name__ == "__main__":
    main()
