"""The report: five sections, each made once, when it is first read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Literal

from xdsl.dialects.builtin import ModuleOp

from tilec.design.conclusion import Conclusion, conclusion
from tilec.design.copies import Copy, copies
from tilec.design.depths import Depths, depths
from tilec.design.descriptors import Descriptor, descriptors
from tilec.design.evidence import Evidence, evidence
from tilec.design.experiment import experiment
from tilec.design.forecast import Forecast, forecast
from tilec.design.phases import Schedule, schedule
from tilec.design.protocols import Budget, Issue, Protocols, Step, protocols
from tilec.design.rings import Barrier, Ring, Rings, rings
from tilec.design.risks import Risks, risks
from tilec.design.subject import Subject
from tilec.design.turns import Phases
from tilec.design.validation import Validation, validation

SCHEMA = 1
"""Grows when a field of the JSON changes its meaning or goes away."""


@dataclass(frozen=True)
class Contract:
    """What holds between the engines and the threads."""

    descriptors: tuple[Descriptor, ...]
    issue: tuple[Issue, ...]
    load_protocol: tuple[Step, ...]
    budgets: tuple[Budget, ...]
    store_protocol: tuple[Step, ...]
    rings: tuple[Ring, ...]
    barriers: tuple[Barrier, ...]
    schedule: tuple[Phases, ...]
    depths: Depths


class Design:
    """All that is known of one kernel. ``str`` gives the text."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject

    def __repr__(self) -> str:
        return f"<tilec.design.Design {self.kernel} for {self.target}>"

    def __str__(self) -> str:
        from tilec.design.text import text

        return text(self)

    @property
    def kernel(self) -> str:
        return self._subject.name

    @property
    def target(self) -> str:
        return self._subject.target.name

    @property
    def pipeline(self) -> str:
        return self._subject.pipeline

    @property
    def shape(self) -> dict[str, int] | None:
        return self._subject.shape

    @property
    def ir(self) -> str:
        """The asynchronous program that all of this is about."""
        return str(self._subject.module)

    @cached_property
    def conclusion(self) -> Conclusion:
        return conclusion(self._subject, self._copies, self._schedule, self._depths, self._forecast, self.validation)

    @cached_property
    def evidence(self) -> tuple[Evidence, ...]:
        return evidence(
            self._subject,
            self._descriptors,
            self._protocols,
            self._depths,
            self._forecast,
            self.conclusion,
            self.validation,
        )

    @cached_property
    def contract(self) -> Contract:
        made = self._protocols
        return Contract(
            self._descriptors,
            made.issue,
            made.load,
            made.budgets,
            made.store,
            self._rings.rings,
            self._rings.barriers,
            self._schedule.phases,
            self._depths,
        )

    @cached_property
    def validation(self) -> Validation:
        asked = experiment(self._subject, self._forecast)
        return validation(self._subject, self._rings, asked)

    @cached_property
    def risks(self) -> Risks:
        return risks(self._subject, self._descriptors, self._protocols, self._depths, self.validation)

    @property
    def holds(self) -> bool:
        """Whether nothing went wrong: what is left are choices and assumptions."""
        return (
            self.validation.holds
            and self._schedule.stuck is None
            and all(one.status != "present" for one in self.risks.modes)
        )

    def fields(self) -> dict[str, Any]:
        """The report as the JSON has it."""
        return {
            "schema": SCHEMA,
            "kernel": self.kernel,
            "file": self._subject.file,
            "target": self.target,
            "pipeline": self.pipeline,
            "shape": self.shape,
            "conclusion": asdict(self.conclusion),
            "evidence": [asdict(one) for one in self.evidence],
            "contract": asdict(self.contract),
            "validation": asdict(self.validation),
            "risks": asdict(self.risks),
        }

    def json(self) -> str:
        return json.dumps(self.fields(), indent=2) + "\n"

    def markdown(self) -> str:
        from tilec.design.markdown import markdown

        return markdown(self)

    # What several sections use.

    @cached_property
    def _copies(self) -> tuple[Copy, ...]:
        return copies(self._subject)

    @cached_property
    def _descriptors(self) -> tuple[Descriptor, ...]:
        return descriptors(self._subject)

    @cached_property
    def _schedule(self) -> Schedule:
        return schedule(self._subject)

    @cached_property
    def _rings(self) -> Rings:
        return rings(self._subject, self._schedule)

    @cached_property
    def _protocols(self) -> Protocols:
        return protocols(self._subject, self._rings)

    @cached_property
    def _resources(self) -> Depths:
        return depths(self._subject)

    @cached_property
    def _forecast(self) -> Forecast:
        return forecast(self._subject, self._resources)

    @cached_property
    def _depths(self) -> Depths:
        return self._resources.timed(self._forecast.times)


def design(
    program: ModuleOp,
    *,
    pipeline: str = "",
    target: str | None = None,
    shape: Mapping[str, int] | None = None,
    like: ModuleOp | None = None,
    code: str | None = None,
    variant: Literal["dense", "given"] = "dense",
) -> Design:
    """The design of the one kernel of `program` under `pipeline`.

    `shape` has an extent for each name in the kernel's view types: the report then has numbers for it, and speaks of the variant that
    such a launch of dense tensors takes; `variant` may say that the program is that of the launch as it is given. `like` is a whole-tile program for a kernel that was written with its schedule: what it computes is compared
    with that. `code` is a Python expression for the text of a program that no file has, from which the experiment's commands could
    read it. Raises TilecError for what the passes refuse.
    """
    return Design(
        Subject(program, pipeline=pipeline, target=target, shape=shape, like=like, code=code, variant=variant)
    )
