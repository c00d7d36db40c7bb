"""`check-protocol`: the proof of an asynchronous kernel's protocol as a pass. It never changes the program."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from tilec.backend.protocol import Verdict, check
from tilec.diagnostics import Diagnostic, fail, location_of, report
from tilec.dialects.tile import KernelOp
from tilec.pass_error import PassError
from tilec.passes.synchronous import is_synchronous


@dataclass(frozen=True)
class CheckProtocol(ModulePass):
    """Prove barriers, phases, fences and lifetimes right for every size, or show what goes wrong.

    A protocol that is refuted is an error, with a run that breaks it as notes; one that is only checked up to a bound is
    a warning. The program stays as it is. `tilec compile` does this before it lowers a kernel.
    """

    name: ClassVar[str] = "check-protocol"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for kernel in op.walk():
            if isinstance(kernel, KernelOp):
                if is_synchronous(kernel):
                    fail(
                        kernel,
                        "this kernel is synchronous: it has no protocol to check yet",
                        hint="run `tma` (or `threads`) before `check-protocol`",
                    )
                _judge(kernel, check(op, kernel=kernel.sym_name.data))


def _judge(kernel: KernelOp, verdict: Verdict) -> None:
    """Refuse what is refuted, warn of what is only checked."""
    match verdict.status:
        case "proved":
            pass
        case "checked":
            found = verdict.diagnostic or Diagnostic("warning", verdict.summary, location_of(kernel))
            report(found._replace(severity="warning"))
        case "refuted":
            found = verdict.refusal(kernel)
            raise PassError(found.message, found.location, found.hint, found.notes)
