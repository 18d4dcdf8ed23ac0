"""What is no record, or has values that no record can have, is refused with what to write
instead."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from logdex.errors import UsageError
from logdex.kafka import Log, Record

ANY_RECORD: Any = Record
"""`Record`, which a type checker takes with any values."""
WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "bytes": (lambda: b"x", "only records can be appended, not bytes .append.Record"),
    "text": (lambda: "x", "not str"),
    "a dict": (lambda: {"value": b"x"}, "not dict"),
    "a number": (lambda: 7, "not int"),
    "nothing": (lambda: None, "not NoneType"),
    "a list of bytes": (lambda: [ANY_RECORD(value=b"a"), b"x"], "not bytes"),
    "a text key": (lambda: ANY_RECORD("k", b"v"), "key must be bytes or None, not str .encode text: key='k'.encode"),
    "a text value": (lambda: ANY_RECORD(value="v"), "value must be bytes or None, not str"),
    "a number as value": (lambda: ANY_RECORD(value=7), "value must be bytes or None, not int"),
    "a time as text": (lambda: ANY_RECORD(value=b"v", timestamp_ms="now"), "timestamp_ms is 'now'"),
    "a time as float": (lambda: ANY_RECORD(value=b"v", timestamp_ms=1.5), "timestamp_ms is 1.5"),
    "headers in a dict": (
        lambda: ANY_RECORD(value=b"v", headers={"trace": b"1"}),
        "headers are pairs, not dict .headers=",
    ),
    "headers in a dict of two letters": (
        lambda: ANY_RECORD(value=b"v", headers={"ab": b"1"}),
        "headers are pairs, not dict",
    ),
    "headers as text": (lambda: ANY_RECORD(value=b"v", headers="ab"), "headers are pairs, not str"),
    "no headers": (lambda: ANY_RECORD(value=b"v", headers=None), "headers are pairs, not NoneType"),
    "headers in an empty dict": (lambda: ANY_RECORD(value=b"v", headers={}), "headers are pairs, not dict"),
    "one header": (lambda: ANY_RECORD(value=b"v", headers=("trace", b"1")), "header is 'trace'"),
    "a header with text": (lambda: ANY_RECORD(value=b"v", headers=(("trace", "1"),)), "header is .'trace', '1'."),
}


@pytest.mark.parametrize("case", WRONG)
def test_it_is_refused_with_what_to_write(case: str, tmp_path: Path) -> None:
    make, told = WRONG[case]
    with Log.open(tmp_path / "events-0") as log:
        with pytest.raises(UsageError, match=told):
            log.append(make())
        with pytest.raises(UsageError, match=told), log.transaction(1) as transaction:
            transaction.append(make())
        assert log.log_end_offset == 0


@pytest.mark.parametrize("table", [b"x", {"key": [b"k"]}, None])
def test_what_is_no_table_is_refused(table: Any, tmp_path: Path) -> None:
    told = f"takes an Arrow table, not {type(table).__name__}"
    with Log.open(tmp_path / "events-0") as log, pytest.raises(UsageError, match=told):
        log.append_columns(table)


@pytest.mark.parametrize("name", ["key", "value"])
def test_a_column_of_numbers_is_told_by_its_name(name: str, tmp_path: Path) -> None:
    table = pa.table({"key": [b"k"], "value": [b"v"], name: [3]})
    told = f"the column {name} is int64, and must be binary"
    with Log.open(tmp_path / "events-0") as log, pytest.raises(UsageError, match=told):
        log.append_columns(table)


def test_other_bytes_and_lists_are_taken(tmp_path: Path) -> None:
    with Log.open(tmp_path / "events-0") as log:
        log.append(each for each in [ANY_RECORD(bytearray(b"k"), memoryview(b"v"), headers=[("trace", None)])])
        (record,) = log.read(0)
        assert (record.key, record.value, record.headers) == (b"k", b"v", (("trace", None),))
