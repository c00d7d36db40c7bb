"""One experiment that can refute the design: numbers that are expected, and the command that measures them on a GPU."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from shlex import join

from tilec.design.forecast import NOTHING, Forecast
from tilec.design.subject import Subject
from tilec.verify_each import small_extents

_TOLERANCE = 0.25
"""The worst that the cost model may be off where its constants were measured."""
_FACTOR = 2.5
"""The same where they were not: docs/prediction.md has what the model says beside figures that others have published."""
_CLEARLY = 1 + _TOLERANCE / 2


@dataclass(frozen=True)
class Experiment:
    """`refuted_if` says which outcome of `command` is against the design; `numbers` is what is expected, by name."""

    prediction: str
    numbers: dict[str, float]
    save: str | None
    """Python that writes the file of the commands, where the program was read from none that they could read."""
    command: str
    refuted_if: str
    beside: str
    """The command that compares the numbers that the kernel computes, on the same GPU."""


def experiment(subject: Subject, forecast: Forecast) -> Experiment:
    """By the forecast where there is one, else by what is computed."""
    options = ["--pipeline", subject.pipeline] if subject.pipeline else []
    where = ["--shape", _extents(forecast.shape)] if forecast.shape else []
    file, save = subject.file or "KERNEL.tile", None
    if subject.code is not None:
        file = f"{subject.name}_ir.tile"
        save = f'from pathlib import Path; Path("{file}").write_text({subject.code})'

    def command(name: str, device: str) -> str:
        return join(["tilec", name, file, *options, *where, "--target", subject.target.name, f"--device={device}"])

    run = command("run", "cuda")
    if subject.not_lowered is not None:
        small = forecast.shape if forecast.given else small_extents(subject.kernel)
        where = ["--shape", _extents(small)] if small else []
        simulated = command("run", "sim")
        said = f"the numbers are right in the simulator; on a GPU nothing runs: {subject.not_lowered}"
        return Experiment(said, {"passed": 1.0}, save, simulated, "an element is off, or it does not end", simulated)
    if forecast.problem == NOTHING:
        said = f"with {_words(forecast)} {NOTHING}"
        return Experiment(said, {"microseconds": 0.0}, save, run, "a kernel is launched, or the call fails", run)
    if forecast.chosen is None:
        return Experiment(
            "the numbers are right on a GPU: no element is off by more than its type's rounding",
            {"passed": 1.0},
            save,
            run,
            "an element is off, or the launch does not end",
            run,
        )
    return _timed(subject, forecast, save, command("predict", "cuda"), run)


def _timed(subject: Subject, forecast: Forecast, save: str | None, measure: str, run: str) -> Experiment:
    chosen = forecast.chosen
    assert chosen is not None
    numbers = {"microseconds": round(chosen.seconds * 1e6, 1), "tflops": round(chosen.tflops, 1)}
    said = f"{_time(chosen.seconds)} a launch ({chosen.tflops:.0f} TFLOP/s), bound by {chosen.bound}"
    if forecast.measured:
        against = f"measured is more than {_TOLERANCE:.0%} off {_time(chosen.seconds)}"
        clearly = _CLEARLY
    else:
        against = (
            f"measured is over {_time(chosen.seconds * _FACTOR)} or under {_time(chosen.seconds / _FACTOR)}: nothing of "
            f"{subject.target.name} has been measured yet, and against published figures the model is off by up to a factor "
            f"of 2 (docs/prediction.md)"
        )
        clearly = _FACTOR
    serial = forecast.times.get(1)
    if serial is not None and subject.depth > 1:
        ratio = serial / chosen.seconds
        numbers["speedup over one stage"] = round(ratio, 2)
        said += f"; {ratio:.2f} times as fast as with one stage ({_time(serial)})"
        against += "; or it is not faster than the row of one stage" if ratio > clearly else ""
    return Experiment(said, numbers, save, measure, against, run)


def _extents(shape: Mapping[str, int]) -> str:
    return ",".join(f"{name}={extent}" for name, extent in shape.items())


def _words(forecast: Forecast) -> str:
    return ", ".join(f"{name} = {extent}" for name, extent in forecast.shape.items()) or "its fixed extents"


def _time(seconds: float) -> str:
    return f"{seconds * 1e6:.1f} us"
