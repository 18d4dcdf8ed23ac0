"""Bytes as text and as JSON: never an error, always one line, and JSON where it is said to be
JSON."""

from __future__ import annotations

import base64
import json
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logdex.cli.rows.row_options import Values
from logdex.cli.rows.value_text import RawJson, compact_json, json_value_of, text_of
from logdex.primitives.text import utf8_or_none


@pytest.mark.parametrize(
    ("how", "text"),
    [
        (Values.TEXT, '{ "a" : "x y" }\\x0a'),
        (Values.JSON, '{"a":"x y"}'),
        (Values.BASE64, base64.b64encode(b'{ "a" : "x y" }\n').decode()),
        (Values.HEX, b'{ "a" : "x y" }\n'.hex()),
        (Values.NONE, ""),
    ],
)
def test_text_of(how: Values, text: str) -> None:
    assert text_of(b'{ "a" : "x y" }\n', how) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (b"1.10", "1.10"),
        (b'{"a": 1, "a": 2}', '{"a":1,"a":2}'),
        (b'["\\" \\u0000 "]', '["\\" \\u0000 "]'),
        (b" null ", "null"),
        (b"1" * 5000, None),
        (b"NaN", None),
        (b"plain", None),
        (b"\xff", None),
        (b"", None),
        (b"[" * 100_000, None),
        (b"[" * 900 + b"]" * 900, "[" * 900 + "]" * 900),
    ],
)
def test_json_stays_as_it_was_written(value: bytes, text: str | None) -> None:
    assert compact_json(value) == text


@given(st.binary(), st.sampled_from(Values))
def test_any_bytes_are_one_line(value: bytes, how: Values) -> None:
    text = text_of(value, how)
    text.encode()
    assert len((text + "x").splitlines()) == 1


@given(st.one_of(st.binary(), st.none(), st.recursive(st.text(), st.lists).map(lambda x: json.dumps(x).encode())))
def test_any_bytes_are_a_value_of_json(value: bytes | None) -> None:
    for how in Values:
        found = json_value_of(value, how)
        if isinstance(found, RawJson):
            assert value is not None
            assert json.loads(found) == json.loads(value)
        else:
            json.dumps(found)
    if value is not None:
        assert base64.b64decode(str(json_value_of(value, Values.BASE64))) == value
        assert bytes.fromhex(str(json_value_of(value, Values.HEX))) == value


@pytest.mark.parametrize(("value", "text"), [(b"a\n", "a\n"), (b"\xff", None), (None, None), ("ń".encode(), "ń")])
def test_utf8_or_none(value: bytes | None, text: str | None) -> None:
    assert utf8_or_none(value) == text


def test_a_long_text_in_json_takes_little_memory() -> None:
    value = b'[ "' + b"ab\\n" * 100_000 + b'" ]'
    tracemalloc.start()
    try:
        assert compact_json(value) == value.decode().replace(" ", "")
        assert tracemalloc.get_traced_memory()[1] < 12e6
    finally:
        tracemalloc.stop()
