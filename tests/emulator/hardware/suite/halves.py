"""f16, f16x2, bf16 and bf16x2 arithmetic."""

from __future__ import annotations

from suite.cases import Case
from suite.kernels import Form, forms, table


def cases() -> list[Case]:
    built: list[Case] = []
    for t in ("f16", "f16x2", "bf16", "bf16x2"):
        width = "b32" if t.endswith("x2") else "b16"
        entries: list[Form] = []
        if t.startswith("f16"):
            for ftz in ("", ".ftz"):
                for sat in ("", ".sat"):
                    for rounding in ("", ".rn"):
                        end = f"{rounding}{ftz}{sat}.{t}"
                        entries += forms(width, 2, f"add{end} sub{end} mul{end}")
                    entries += forms(width, 3, f"fma.rn{ftz}{sat}.{t}")
                entries += forms(width, 3, f"fma.rn{ftz}.relu.{t}")
                entries += forms(width, 1, f"neg{ftz}.{t}")
                for op in ("min", "max"):
                    for nan in ("", ".NaN"):
                        entries += forms(width, 2, f"{op}{ftz}{nan}.{t} {op}{ftz}{nan}.xorsign.abs.{t}")
            entries += forms(width, 1, f"abs.{t} abs.ftz.{t}")
        else:
            entries += forms(width, 2, f"add.{t} sub.{t} mul.{t} add.rn.{t} sub.rn.{t} mul.rn.{t}")
            entries += forms(width, 3, f"fma.rn.{t} fma.rn.relu.{t}") + forms(width, 1, f"neg.{t} abs.{t}")
            for op in ("min", "max"):
                for nan in ("", ".NaN"):
                    entries += forms(width, 2, f"{op}{nan}.{t} {op}{nan}.xorsign.abs.{t}")
        built.append(table(f"{t}_arithmetic", "half", (t, t, t), entries))
    return built
