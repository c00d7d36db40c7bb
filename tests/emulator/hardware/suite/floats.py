"""f32 and f64 arithmetic with results that IEEE 754 or the ISA fixes, bit for bit."""

from __future__ import annotations

from suite.cases import Case
from suite.kernels import Form, forms, table

ROUNDINGS = ("rn", "rz", "rm", "rp")


def cases() -> list[Case]:
    return [*_single(), *_double(), *_questions()]


def _single() -> list[Case]:
    sums: list[Form] = []
    fused: list[Form] = []
    quotients: list[Form] = []
    for rounding in ("", *(f".{r}" for r in ROUNDINGS)):
        for ftz in ("", ".ftz"):
            for sat in ("", ".sat"):
                end = f"{rounding}{ftz}{sat}.f32"
                sums += forms("b32", 2, f"add{end} sub{end} mul{end}")
                if rounding:
                    fused += forms("b32", 3, f"fma{end} mad{end}")
            if rounding:
                quotients += forms("b32", 2, f"div{rounding}{ftz}.f32")
                quotients += forms("b32", 1, f"rcp{rounding}{ftz}.f32 sqrt{rounding}{ftz}.f32")
    others: list[Form] = []
    for ftz in ("", ".ftz"):
        others += forms("b32", 1, f"abs{ftz}.f32 neg{ftz}.f32")
        for op in ("min", "max"):
            for nan in ("", ".NaN"):
                others += forms("b32", 2, f"{op}{ftz}{nan}.f32 {op}{ftz}{nan}.xorsign.abs.f32")
    others += forms("b32", 2, "copysign.f32")
    return [
        table("f32_sums", "f32", ("f32", "f32"), sums),
        table("f32_fused", "f32", ("f32", "f32", "f32"), fused),
        table("f32_quotients", "f32", ("f32", "f32"), quotients),
        table("f32_others", "f32", ("f32", "f32"), others),
    ]


def _double() -> list[Case]:
    sums: list[Form] = forms("b64", 2, "add.f64 sub.f64 mul.f64")
    fused: list[Form] = []
    quotients: list[Form] = []
    for rounding in ROUNDINGS:
        sums += forms("b64", 2, f"add.{rounding}.f64 sub.{rounding}.f64 mul.{rounding}.f64")
        fused += forms("b64", 3, f"fma.{rounding}.f64 mad.{rounding}.f64")
        quotients += forms("b64", 2, f"div.{rounding}.f64")
        quotients += forms("b64", 1, f"rcp.{rounding}.f64 sqrt.{rounding}.f64")
    others = forms("b64", 2, "min.f64 max.f64 copysign.f64") + forms("b64", 1, "abs.f64 neg.f64")
    return [
        table("f64_sums", "f64", ("f64", "f64"), sums, rows=128),
        table("f64_fused", "f64", ("f64", "f64", "f64"), fused, rows=128),
        table("f64_quotients", "f64", ("f64", "f64"), quotients, rows=128),
        table("f64_others", "f64", ("f64", "f64"), others),
    ]


def _questions() -> list[Case]:
    kinds = ["finite", "infinite", "number", "notanumber", "normal", "subnormal"]
    return [
        table(f"testp_{t}", t, (t,), [(f"testp.{kind}.{t} d, a;", "pred") for kind in kinds]) for t in ("f32", "f64")
    ]
