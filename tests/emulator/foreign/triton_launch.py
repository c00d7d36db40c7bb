"""How Triton's launcher calls a kernel, from the sidecar that lies beside its PTX."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .cases import DATA, Array, Case, Launch, Result, Tiled

SWIZZLES = {0: None, 1: "32B", 2: "64B", 3: "128B"}
SCALARS = {"i32": np.int32, "i64": np.int64, "fp32": np.float32}


@dataclass(frozen=True)
class Call:
    """A kernel's arguments by name, its grid of programs and what it must leave behind."""

    arguments: dict[str, Any]
    results: list[Result]
    programs: tuple[int, ...]


def launch(sidecar: dict[str, Any], call: Call) -> Launch:
    """The call with the arguments that the launcher adds, in the order of the PTX's parameters."""
    cluster: list[int] = sidecar["cluster"]
    programs = (*call.programs, 1, 1)[:3]
    grid = (programs[0] * cluster[0], programs[1], programs[2])
    values: list[Any] = []
    for parameter in sidecar["parameters"]:
        name, kind = parameter["name"].split(".")[0], parameter["kind"]
        given: Any = call.arguments.get(name)
        match kind:
            case "pointer":
                values.append(given)
            case "scalar":
                values.append(SCALARS[parameter["type"]](given))
            case "tensor_map":
                values.append(Tiled(given, tuple(parameter["box"]), SWIZZLES[parameter["swizzle"]]))
            case "shape" | "stride":
                axis = int(parameter["name"][-2])
                sizes = given.shape if kind == "shape" else [stride // given.itemsize for stride in given.strides]
                values.append(SCALARS[parameter["type"]](sizes[axis]))
            case _:
                size = parameter["bytes_per_block"] * math.prod(grid)
                values.append(np.zeros(size, np.uint8) if size else np.uint64(0))
    block: list[int] = sidecar["block"]
    return Launch(
        values,
        call.results,
        grid,
        (block[0], block[1], block[2]),
        (cluster[0], cluster[1], cluster[2]),
        sidecar["shared_bytes"],
    )


class Triton:
    """The cases of Triton's kernels, filled by decorating a function that makes the call of a build."""

    def __init__(self) -> None:
        self.cases: list[Case] = []

    def case(
        self, *builds: str
    ) -> Callable[
        [Callable[[np.random.Generator, dict[str, Any]], Call]], Callable[[np.random.Generator, dict[str, Any]], Call]
    ]:
        """Makes the function, which gets the build's constants, the case of each build for each target it was made for."""

        def add(
            make: Callable[[np.random.Generator, dict[str, Any]], Call],
        ) -> Callable[[np.random.Generator, dict[str, Any]], Call]:
            for build in builds:
                for path in sorted((DATA / "triton").glob(f"{build}.sm_*.json")):
                    sidecar: dict[str, Any] = json.loads(path.read_text())

                    def bound(random: np.random.Generator, sidecar: dict[str, Any] = sidecar) -> Launch:
                        return launch(sidecar, make(random, sidecar["constants"]))

                    self.cases.append(Case(path.stem, f"triton/{path.stem}.ptx", sidecar["entry"], bound))
            return make

        return add


def padded(array: Array, pitch: int) -> Array:
    """The same rows at a larger pitch; what lies between is not to be read or written."""
    fill = np.nan if array.dtype.kind == "f" else 0x7B
    wide = np.full((array.shape[0], pitch), fill, array.dtype)
    wide[:, : array.shape[1]] = array
    return wide
