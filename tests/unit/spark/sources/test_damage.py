"""The error of damage names the option that reads on behind it, whatever else it says."""

from __future__ import annotations

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")
from logdex.errors import CorruptError
from logdex.spark.sources.damage import CORRUPT_TYPE, DamageLog, with_hint


@pytest.mark.parametrize("hint", [None, "logdex verify lists all damage"])
def test_the_hint_names_the_option(hint: str | None) -> None:
    error = with_hint(CorruptError("no message", path="log", position=7, hint=hint))
    once = error.hint or ""
    assert once.startswith(f"{hint}; option mode=PERMISSIVE" if hint else "option mode=PERMISSIVE")
    assert with_hint(error).hint == once


@pytest.mark.parametrize("name", ["_corrupt", "_Corrupt"])
def test_the_column_of_damage_has_any_case(name: str) -> None:
    damage = DamageLog()
    damage.note(CorruptError("no message", path="log", position=7))
    [rows] = damage.rows(pa.schema([("offset", pa.int64()), (name, CORRUPT_TYPE)]))
    [row] = rows.to_pylist()
    assert (row["offset"], row[name]["begin"]) == (None, 7)
