"""Arrow's expressions as conditions."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from logdex.frames.arrow_filters import conditions_of, fields_of
from logdex.frames.conditions import EQUAL, GREATER, IN, IS_NOT_NULL, LESS, LESS_OR_EQUAL, Condition

A, B = pc.field("a"), pc.field("b")


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (A == 3, [Condition("a", EQUAL, 3)]),
        (pc.scalar(3) > A, [Condition("a", LESS, 3)]),
        ((A > 3) & (B <= 'x"\\ä') & (A != 4), [Condition("a", GREATER, 3), Condition("b", LESS_OR_EQUAL, 'x"\\ä')]),
        (A.isin(["x", None, "y"]), [Condition("a", IN, ("x", "y"))]),
        (A.isin([b"\x00"]) & A.is_valid(), [Condition("a", IN, (b"\x00",)), Condition("a", IS_NOT_NULL)]),
        (pa.scalar(b"k\xff") == A, [Condition("a", EQUAL, b"k\xff")]),
        (datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC) < A, [Condition("a", GREATER, 1_000_000)]),
        (pa.scalar(5, pa.timestamp("ms")) < A, [Condition("a", GREATER, 5_000)]),
        (pa.scalar(1 << 62, pa.timestamp("us", "UTC")) < A, [Condition("a", GREATER, 1 << 62)]),
        (pc.if_else(A.is_valid(), A.isin([1, 2]), pa.scalar(None, pa.bool_())), [Condition("a", IN, (1, 2))]),
        (pc.if_else(A.is_valid(), A.isin([1, 2]), pa.scalar(True)), []),
        ((A == 1) | (B == 2), []),
        (~(A == 1), []),
        (A == B, []),
        (A == 1.5, []),
        (A == True, []),  # noqa: E712
        (pa.scalar(None, pa.int64()) == A, []),
        (A + 1 == 3, []),
        (A.is_null(), []),
        (pc.field("a", "inner") == 1, []),
        (pc.scalar(True), []),
        (None, []),
    ],
)
def test_conditions(expression: pc.Expression | None, expected: list[Condition]) -> None:
    assert list(conditions_of(expression).all) == expected


def test_fields() -> None:
    assert fields_of((A == 1) | ~(pc.field("c", "inner") > B + 1)) == frozenset("abc")
    assert fields_of(pc.scalar(True)) == frozenset()
    assert fields_of(None) == frozenset()
    assert fields_of(pc.field(0) == 1) is None, "a field by its number cannot be taken apart"
