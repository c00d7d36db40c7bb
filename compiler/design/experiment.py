"""One experiment that can refute the design: numbers that are expected, and the command that measures them on a GPU."""

from __future__ import annotations

from dataclasses import dataclass
from shlex import join

from tilec.design.forecast import Expected, Forecast
from tilec.design.subject import Subject

_TOLERANCE = 0.25
"""The worst that the cost model may be off."""


@dataclass(frozen=True)
class Experiment:
    """`refuted_if` says which outcome of `command` is against the design; `numbers` is what is expected, by name."""

    prediction: str
    numbers: dict[str, float]
    command: str
    refuted_if: str
    beside: str
    """The command that compares the numbers that the kernel computes, on the same GPU."""


def experiment(subject: Subject, forecast: Forecast) -> Experiment:
    """By the forecast where there is one, else by what is computed."""
    shape = ",".join(f"{name}={extent}" for name, extent in forecast.shape.items())
    options = ["--pipeline", subject.pipeline] if subject.pipeline else []
    where = ["--shape", shape] if shape else []
    of_target = ["--target", subject.target.name]
    file = subject.file or "KERNEL.tile"
    run = join(["tilec", "run", file, *options, *where, *of_target, "--device=cuda"])
    chosen, serial = forecast.chosen, forecast.serial
    if chosen is None:
        return Experiment(
            "the numbers are right on a GPU: no element is off by more than its type's rounding",
            {"passed": 1.0},
            run,
            "an element is off, or the launch does not end",
            run,
        )
    measure = join(["tilec", "predict", file, *options, *where, *of_target, "--device=cuda"])
    numbers = {"microseconds": round(chosen.seconds * 1e6, 1), "tflops": round(chosen.tflops, 1)}
    said = f"{_time(chosen)} a launch ({chosen.tflops:.0f} TFLOP/s), bound by {chosen.bound}"
    against = f"measured is more than {_TOLERANCE:.0%} off {_time(chosen)}"
    if serial is not None and serial.seconds > 0:
        ratio = serial.seconds / chosen.seconds
        numbers["speedup over one stage"] = round(ratio, 2)
        said += f"; {ratio:.2f} times as fast as with one stage ({_time(serial)})"
        against += ", or it is not faster than the row of one stage" if ratio > 1 + _TOLERANCE / 2 else ""
    return Experiment(said, numbers, measure, against, run)


def _time(expected: Expected) -> str:
    return f"{expected.seconds * 1e6:.1f} us"
