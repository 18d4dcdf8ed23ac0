"""Counts with their words."""

from __future__ import annotations

import pytest

from logdex.primitives.shown import counted


@pytest.mark.parametrize(
    ("count", "words", "text"),
    [
        (0, ("file",), "0 files"),
        (1, ("file",), "1 file"),
        (2000, ("file",), "2,000 files"),
        (1, ("entry", "entries"), "1 entry"),
        (2, ("entry", "entries"), "2 entries"),
        (1, ("gap is there", "gaps are there"), "1 gap is there"),
    ],
)
def test_a_count_has_the_word_that_goes_with_it(count: int, words: tuple[str, ...], text: str) -> None:
    assert counted(count, *words) == text
