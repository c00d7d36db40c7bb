"""cvt: integer widths and saturation, all roundings, the narrow formats, packing."""

from __future__ import annotations

from suite.cases import Case
from suite.kernels import Form, forms, table

INTEGERS = [f"{sign}{width}" for width in (8, 16, 32, 64) for sign in "us"]
TO_INTEGER = ("rni", "rzi", "rmi", "rpi")
TO_FLOAT = ("rn", "rz", "rm", "rp")


def cases() -> list[Case]:
    return [*_integers(), *_floats_to_integers(), *_integers_to_floats(), *_floats(), *_narrow(), *_packs()]


def _width(kind: str) -> str:
    return f"b{max(16, int(kind.strip('ufs')))}"


def _contains(target: str, source: str) -> bool:
    """Whether every value of the source has a place in the target: then `.sat` may not be written."""
    wider = int(target[1:]) > int(source[1:])
    return target == source or (wider and (target[0] == "s" or source[0] == "u"))


def _integers() -> list[Case]:
    built: list[Case] = []
    for width in (8, 16, 32, 64):
        entries: list[Form] = []
        for source in (f"u{width}", f"s{width}"):
            for target in INTEGERS:
                entries += forms(_width(target), 1, f"cvt.{target}.{source}")
                if not _contains(target, source):
                    entries += forms(_width(target), 1, f"cvt.sat.{target}.{source}")
        built.append(table(f"convert_integer_{width}", "conversion", (f"i{max(16, width)}",), entries))
    return built


def _floats_to_integers() -> list[Case]:
    built: list[Case] = []
    for source in ("f16", "f32", "f64", "bf16"):
        entries: list[Form] = []
        for target in INTEGERS if source != "bf16" else INTEGERS[2:]:
            for rounding in TO_INTEGER:
                for ftz in ("", ".ftz") if source == "f32" else ("",):
                    entries += forms(_width(target), 1, f"cvt.{rounding}{ftz}.{target}.{source}")
                if rounding == "rzi" and source != "bf16":
                    entries += forms(_width(target), 1, f"cvt.rzi.sat.{target}.{source}")
        name = f"convert_{source}_integer"
        built.append(table(name, "conversion", (source,), entries))
    return built


def _integers_to_floats() -> list[Case]:
    built: list[Case] = []
    for width in (8, 16, 32, 64):
        entries: list[Form] = []
        for source in (f"u{width}", f"s{width}"):
            for target in ("f16", "f32", "f64", "bf16") if width > 8 else ("f16", "f32", "f64"):
                out = "b16" if target == "bf16" else _width(target)
                for rounding in TO_FLOAT:
                    entries += forms(out, 1, f"cvt.{rounding}.{target}.{source}")
                if target != "bf16":
                    entries += forms(out, 1, f"cvt.rz.sat.{target}.{source}")
        built.append(table(f"convert_integer_{width}_float", "conversion", (f"i{max(16, width)}",), entries))
    return built


def _floats() -> list[Case]:
    f32: list[Form] = []
    for ftz in ("", ".ftz"):
        f32 += forms(
            "b32",
            1,
            *(f"cvt.{r}{ftz}.f32.f32" for r in TO_INTEGER),
            f"cvt.rni{ftz}.sat.f32.f32",
            f"cvt{ftz}.sat.f32.f32",
        )
        f32 += forms("b16", 1, *(f"cvt.{r}{ftz}.f16.f32" for r in TO_FLOAT), f"cvt.rn{ftz}.sat.f16.f32")
        f32 += forms("b64", 1, f"cvt{ftz}.f64.f32", f"cvt{ftz}.sat.f64.f32")
    f32 += forms(
        "b16",
        1,
        "cvt.rn.bf16.f32 cvt.rz.bf16.f32 cvt.rm.bf16.f32 cvt.rp.bf16.f32 cvt.rn.relu.bf16.f32 cvt.rz.relu.bf16.f32",
    )
    f32 += forms("b16", 1, "cvt.rn.relu.f16.f32 cvt.rz.relu.f16.f32")
    f32 += forms("b32", 1, "cvt.rna.tf32.f32 cvt.rn.tf32.f32 cvt.rz.tf32.f32 cvt.rn.relu.tf32.f32 cvt.rz.relu.tf32.f32")
    f64 = forms("b64", 1, *(f"cvt.{r}.f64.f64" for r in TO_INTEGER), "cvt.sat.f64.f64", "cvt.rni.sat.f64.f64")
    for rounding in TO_FLOAT:
        f64 += forms("b32", 1, f"cvt.{rounding}.f32.f64 cvt.{rounding}.ftz.f32.f64") + forms(
            "b16", 1, f"cvt.{rounding}.f16.f64"
        )
    f64 += forms("b32", 1, "cvt.rn.sat.f32.f64") + forms("b16", 1, "cvt.rn.bf16.f64 cvt.rz.bf16.f64")
    f16 = forms("b16", 1, *(f"cvt.{r}.f16.f16" for r in TO_INTEGER), "cvt.sat.f16.f16", "cvt.rni.sat.f16.f16")
    f16 += forms("b32", 1, "cvt.f32.f16 cvt.ftz.f32.f16 cvt.sat.f32.f16") + forms(
        "b64", 1, "cvt.f64.f16 cvt.sat.f64.f16"
    )
    f16 += forms("b16", 1, "cvt.rn.bf16.f16 cvt.rz.bf16.f16")
    bf16 = forms("b32", 1, "cvt.f32.bf16") + forms("b64", 1, "cvt.f64.bf16")
    bf16 += forms("b16", 1, "cvt.rn.f16.bf16 cvt.rni.bf16.bf16 cvt.rzi.bf16.bf16 cvt.rmi.bf16.bf16 cvt.rpi.bf16.bf16")
    return [
        table("convert_f32", "conversion", ("f32",), f32, version="8.6"),
        table("convert_f64", "conversion", ("f64",), f64),
        table("convert_f16", "conversion", ("f16",), f16),
        table("convert_bf16", "conversion", ("bf16",), bf16),
    ]


def _narrow() -> list[Case]:
    pairs = forms(
        "b32", 2, *(f"cvt.{r}{relu}.{t}x2.f32" for r in ("rn", "rz") for relu in ("", ".relu") for t in ("f16", "bf16"))
    )
    small = [f"{relu}.{t}" for relu in ("", ".relu") for t in ("e4m3x2", "e5m2x2")]
    pairs += forms("b16", 2, *(f"cvt.rn.satfinite{end}.f32" for end in small))
    halves = forms("b16", 1, *(f"cvt.rn.satfinite{end}.f16x2" for end in small))
    wide = forms("b32", 1, *(f"cvt.rn{relu}.f16x2.{t}" for relu in ("", ".relu") for t in ("e4m3x2", "e5m2x2")))
    return [
        table("convert_pairs", "conversion", ("f32", "f32"), pairs, version="8.1"),
        table("convert_f16x2_e8", "conversion", ("f16x2",), halves, version="8.1"),
        table("convert_e8_f16x2", "conversion", ("e8x2",), wide, version="8.1"),
    ]


def _packs() -> list[Case]:
    entries: list[Form] = forms("b32", 2, "cvt.pack.sat.s16.s32 cvt.pack.sat.u16.s32")
    for t in ["s8", "u8", "s4", "u4", "s2", "u2"]:
        entries += forms("b32", 3, f"cvt.pack.sat.{t}.s32.b32")
    return [table("convert_pack", "conversion", ("i32", "i32", "i32"), entries)]
