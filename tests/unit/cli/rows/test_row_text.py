"""Rows of both formats in every way of printing them: no bytes make it fail."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logdex.cli.rows.row_options import RowOptions, Values, take_row_options
from logdex.cli.rows.row_text import renderer
from logdex.cli.rows.shape import RowShape
from logdex.cli.views.kafka.records import RECORDS
from logdex.cli.views.rocketmq.messages import MESSAGES, MessageRow
from logdex.errors import UsageError
from logdex.kafka.batch.record import Record
from logdex.testing.kafka_strategies import records
from logdex.testing.store_builder import make_message
from logdex.testing.strategies import stored_messages

PARTITION: Any = SimpleNamespace(topic="t\udcfe", partition=3)
SHAPES: list[RowShape[Any]] = [RECORDS, MESSAGES]


def kafka_rows() -> st.SearchStrategy[Any]:
    return st.tuples(st.just(PARTITION), records())


def rocketmq_rows() -> st.SearchStrategy[Any]:
    return stored_messages().map(lambda message: MessageRow(message, 17, message.body))


ROWS = st.one_of(kafka_rows().map(lambda row: (RECORDS, row)), rocketmq_rows().map(lambda row: (MESSAGES, row)))
OPTIONS = st.builds(RowOptions, st.booleans(), st.none(), st.none() | st.sampled_from(Values), st.booleans())


def text_of(row: Any, **options: Any) -> str:
    shape: RowShape[Any] = MESSAGES if isinstance(row, MessageRow) else RECORDS
    return renderer(shape, RowOptions(**options))(row)


@given(ROWS, OPTIONS, st.booleans())
def test_no_bytes_make_a_line_fail(found: tuple[RowShape[Any], Any], options: RowOptions, some: bool) -> None:
    shape, row = found
    columns = (*shape.names, f"{shape.pairs_field}.a") if some else None
    text = renderer(shape, RowOptions(options.as_json, None, options.values, options.is_full, columns))(row)
    text.encode()
    assert text.endswith("\n")
    assert len(text.split("\n")) == 2
    if options.as_json:
        json.loads(text)
    elif some:
        assert len(text.split("\t")) == len(shape.names) + 1


@given(ROWS, st.none() | st.sampled_from(Values))
def test_no_bytes_make_a_template_fail(found: tuple[RowShape[Any], Any], values: Values | None) -> None:
    shape, row = found
    template = r"\n".join(f"%{letter}" for letter in shape.letters)
    text = renderer(shape, RowOptions(template=template, values=values))(row)
    text.encode()
    assert len(text.splitlines()) <= len(shape.letters) == len(text.split("\n"))


@given(ROWS)
def test_fields_are_those_of_the_shape(found: tuple[RowShape[Any], Any]) -> None:
    shape, row = found
    assert tuple(json.loads(renderer(shape, RowOptions(as_json=True))(row))) == shape.names
    names = tuple(name for name in shape.fields if name != shape.value_field)
    assert tuple(json.loads(renderer(shape, RowOptions(as_json=True, values=Values.NONE))(row))) == names


RECORD = (PARTITION, Record(b"k\xff", b'{"n": 1.10}', 1_700_000_000_000, (("h", b"\x00"), ("n", None)), offset=7))


def test_a_record_by_a_template() -> None:
    everything = r"%t %p %o %T %D %k %K %s %v %S %h %e %P%%\n"
    assert text_of(RECORD, template=everything) == (
        't\\xfe 3 7 1700000000000 2023-11-14T22:13:20.000Z k\\xff 2 {"n": 1.10} {"n": 1.10} 11 h=\\x00,n= -1 -1%\n'
    )
    assert text_of(RECORD, template="%k %v", values=Values.HEX) == "6bff 7b226e223a20312e31307d"
    null = (PARTITION, Record(None, None, -1))
    assert text_of(null, template="[%k %K %v %S %D]") == "[ -1  -1 -]"


def test_a_record_as_json() -> None:
    row = json.loads(text_of(RECORD, as_json=True))
    assert (row["key"], row["key_text"], row["value_text"]) == ("a/8=", None, '{"n": 1.10}')
    assert '"value": {"n":1.10}' in text_of(RECORD, as_json=True, values=Values.JSON)
    row = json.loads(text_of(RECORD, as_json=True, values=Values.TEXT))
    assert (row["key"], row["value"], row["headers"]) == ("k\\xff", '{"n": 1.10}', [["h", "\0"], ["n", None]])
    assert json.loads(text_of(RECORD, as_json=True, columns=("value_text", "offset", "headers.h"))) == {
        "value_text": '{"n": 1.10}',
        "offset": 7,
        "headers.h": "\0",
    }


def test_columns_are_separated_by_tabs() -> None:
    columns = ("offset", "key", "value", "headers", "headers.h", "headers.none", "is_control", "value_text")
    assert text_of(RECORD, columns=columns) == ('7\tk\\xff\t{"n": 1.10}\th=\\x00,n=\t\\x00\t\tfalse\t{"n": 1.10}\n')


def test_a_message_by_a_template_and_as_columns() -> None:
    stored = make_message(
        topic=b"orders", queue_offset=5, body=b"hi", properties=[(b"KEYS", b"a b"), (b"TAGS", b"T"), (b"x", b"1")]
    )
    row = MessageRow(stored, 99, stored.body)
    assert text_of(row, template="%t/%p %o %a %k %g %v %S [%u] %h") == (
        f"orders/{stored.queue_id} 5 99 a b T hi 2 [] KEYS=a b,TAGS=T,x=1"
    )
    other = replace(stored, born_timestamp_ms=1_700_000_000_007, reconsume_times=3)
    assert text_of(MessageRow(other, 99, b"hi"), template="%b %r %z") == f"1700000000007 3 {stored.size_bytes}"
    assert text_of(row, columns=("keys", "properties.x", "tags", "body")) == "a,b\t1\tT\thi\n"
    assert json.loads(text_of(row, as_json=True))["body_text"] == "hi"


def test_long_values_are_cut_unless_they_are_wanted_in_full() -> None:
    row = (PARTITION, Record(b"k", b"x" * 500))
    assert text_of(row).endswith("  " + "x" * 119 + "…\n")
    assert text_of(row, is_full=True).endswith("  " + "x" * 500 + "\n")
    assert text_of(row, values=Values.HEX).endswith("…\n")
    assert text_of(row, values=Values.NONE).endswith("key=k\n")
    assert len(text_of(row, template="%s")) == 500


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("columns", [("ofset",), ("",), ("value_text_text",), ("properties", "headers")])
def test_unknown_columns_are_refused(shape: RowShape[Any], columns: tuple[str, ...]) -> None:
    with pytest.raises(UsageError, match="there is no field"):
        renderer(shape, RowOptions(columns=columns))


@pytest.mark.parametrize(("name", "value"), [("as_json", True), ("columns", "offset")])
def test_a_template_excludes_other_ways(name: str, value: object) -> None:
    given = {"template": "%k", "values": None, "full": False, "columns": None, "decode": False, "as_json": False}
    with pytest.raises(UsageError, match="exclude each other"):
        take_row_options({**given, name: value})
