"""Text and numbers of a wrong type in a question: a `UsageError` that says which."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

from logdex.errors import UsageError
from logdex.primitives.text import to_bytes
from logdex.primitives.wrong_questions import LONG_MAX, require_counts, require_longs


@pytest.mark.parametrize("text", [None, 5, 1.5, [], object()])
def test_what_is_no_text(text: Any) -> None:
    with pytest.raises(UsageError, match="is neither text nor bytes"):
        to_bytes(text)


def test_what_utf8_cannot_hold() -> None:
    with pytest.raises(UsageError, match=r"the text has '.ud800', which UTF-8 cannot hold"):
        to_bytes("a\ud800b")


def test_text_and_bytes() -> None:
    assert [to_bytes(text) for text in ("é", b"\xff", "\udcff", "")] == [b"\xc3\xa9", b"\xff", b"\xff", b""]


@pytest.mark.parametrize("number", ["1", 1.0, b"1", [], float("nan"), LONG_MAX + 1, -LONG_MAX - 2])
def test_what_is_no_whole_number(number: Any) -> None:
    for require in (require_longs, require_counts):
        with pytest.raises(UsageError, match=r"^offset is "):
            require(offset=number)


def test_a_datetime_in_place_of_a_time() -> None:
    when: Any = datetime(2026, 1, 1, tzinfo=UTC)
    with pytest.raises(UsageError, match=r"begin_ms is datetime.* .give milliseconds: int.when.timestamp.. . 1000"):
        require_longs(begin_ms=when)
    assert require_longs(begin_ms=int(when.timestamp() * 1000)) is None  # type: ignore[func-returns-value]


def test_whole_numbers() -> None:
    require_longs(offset=-LONG_MAX - 1, time_ms=None, queue_id=np.int32(3))  # type: ignore[arg-type]
    require_counts(limit=0, max_count=LONG_MAX)
    with pytest.raises(UsageError, match="limit is -1"):
        require_counts(limit=-1)
