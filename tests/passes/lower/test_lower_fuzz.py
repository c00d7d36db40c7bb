"""Whatever a user writes becomes PTX or one diagnostic: no other exception, and never an abort inside LLVM."""

from __future__ import annotations

from gemm_text import gemm
from hypothesis import given, settings
from hypothesis import strategies as st

from tilec.backend.ptxas import PtxasError, find_ptxas
from tilec.diagnostics import InternalError, TilecError, collect
from tilec.driver import compile_module
from tilec.source import parse_text

_facts = st.builds(
    lambda order, align, tail: order + align + tail,
    st.sampled_from(["", ", order = [0, 1]"]),
    st.sampled_from(["", ", align = 8", ", align = 4", ", align = 2"]),
    st.sampled_from(["", ", tail = free"]),
)
_pass = st.one_of(
    st.builds(
        "retile({},{},{})".format,
        st.sampled_from([64, 128, 96]),
        st.sampled_from([8, 24, 64, 256]),
        st.sampled_from([16, 48, 64]),
    ),
    st.sampled_from(
        ["tma", "tma(min_bytes=0)", "threads", "persistent", "persistent(group=3)", "canonicalize", "cse", "dce"]
    ),
    st.builds("pipeline({})".format, st.integers(1, 6)),
    st.builds("pipeline({},{})".format, st.integers(1, 6), st.integers(0, 5)),
)
_schedule = st.one_of(
    st.lists(_pass, max_size=5),
    st.builds(lambda head, tail: [head, *tail], st.sampled_from(["tma", "threads"]), st.lists(_pass, max_size=3)),
)


@settings(max_examples=300)
@given(
    m=st.sampled_from([64, 128, 256, 32]),
    n=st.sampled_from([8, 16, 24, 64, 128, 192, 256, 512]),
    k=st.sampled_from([16, 32, 48, 64, 80, 128, 24]),
    dtype=st.sampled_from(["f16", "bf16", "f32"]),
    out=st.sampled_from(["f16", "bf16", "f32"]),
    a=_facts,
    b=_facts,
    d=_facts,
    passes=_schedule,
    target=st.sampled_from(["sm_90a", "sm_100a"]),
)
def test_ptx_or_a_diagnostic(m, n, k, dtype, out, a, b, d, passes, target) -> None:
    text = gemm(m, n, k, dtype=dtype, out=out, a=a, b=b, d=d)
    with collect():
        try:
            module = parse_text(text, "gemm.tile")
            compiled = compile_module(module, pipeline=",".join(passes), target=target)
            ptx = compiled.ptx
            if find_ptxas() is not None:
                assert compiled.cubin
        except (InternalError, PtxasError):
            raise
        except TilecError as error:
            assert error.diagnostic.message
            assert error.diagnostic.location is not None
        else:
            assert f".target {target}\n" in ptx
