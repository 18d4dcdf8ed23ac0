"""The error of damage names the option that reads on behind it, whatever else it says."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark")
from logdex.errors import CorruptError
from logdex.spark.sources.damage import with_hint


@pytest.mark.parametrize("hint", [None, "logdex verify lists all damage"])
def test_the_hint_names_the_option(hint: str | None) -> None:
    error = with_hint(CorruptError("no message", path="log", position=7, hint=hint))
    once = error.hint or ""
    assert once.startswith(f"{hint}; option mode=PERMISSIVE" if hint else "option mode=PERMISSIVE")
    assert with_hint(error).hint == once
