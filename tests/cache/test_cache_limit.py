"""How the size of the cache is written."""

from __future__ import annotations

import pytest

from tilec.cache.limit import size_limit, size_text
from tilec.diagnostics import TilecError


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("1048576", 1048576),
        ("512M", 512 * 1024 * 1024),
        ("2G", 2 * 1024**3),
        (" 3 k ", 3072),
        ("1.5MiB", 1572864),
        ("7mb", 7 * 1024 * 1024),
        ("1T", 1024**4),
        ("99999999999999999999", 99999999999999999999),
    ],
)
def test_sizes(monkeypatch: pytest.MonkeyPatch, text: str, size: int) -> None:
    monkeypatch.setenv("TILEC_CACHE_SIZE", text)
    assert size_limit() == size


def test_one_gibibyte_without_a_word() -> None:
    assert size_limit() == 1073741824


@pytest.mark.parametrize("text", ["", "-1", "1X", "G", "1e9", "1 000", "0x10", "many", "1.M", "\u0663"])
def test_what_is_no_size(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("TILEC_CACHE_SIZE", text)
    with pytest.raises(TilecError) as caught:
        size_limit()
    assert str(caught.value) == (
        f"error: TILEC_CACHE_SIZE is '{text}', which is not a size\n"
        "hint: write a number of bytes, or one with K, M, G or T, such as 512M"
    )


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 bytes"),
        (1, "1 byte"),
        (1023, "1023 bytes"),
        (1024, "1.0 KiB"),
        (1536 * 1024, "1.5 MiB"),
        (1 << 30, "1.0 GiB"),
        (5 << 40, "5.0 TiB"),
    ],
)
def test_sizes_to_read(size: int, text: str) -> None:
    assert size_text(size) == text
