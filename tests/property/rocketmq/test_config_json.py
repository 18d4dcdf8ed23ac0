"""The lenient JSON reader: it reads what JSON is, with the broker's ways, and never fails but with
a located error."""

from __future__ import annotations

import contextlib
import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logdex.errors import CorruptError
from logdex.rocketmq.files import config_json
from logdex.rocketmq.files.config_json import parse_config_json

_KEYS = st.text(max_size=8)
_VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(1 << 63), 1 << 63),
        st.floats(allow_nan=False, allow_infinity=False),
        _KEYS,
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(_KEYS, inner, max_size=4)),
    max_leaves=12,
)


@given(st.dictionaries(_KEYS, _VALUES, max_size=4), st.booleans(), st.sampled_from([None, "\t"]))
def test_json_is_read_as_json(value: dict[str, Any], ascii_only: bool, indent: str | None) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    expected = json.loads(text.encode("utf-8", "replace"))
    if not ascii_only or not re.search(r"\\u[dD][89a-fA-F]", text):
        assert parse_config_json(text.encode("utf-8", "replace")) == expected


@given(st.dictionaries(st.integers(-(1 << 31), 1 << 63), st.integers(), max_size=6))
def test_integer_keys_without_quotes(table: dict[int, int]) -> None:
    text = "{\n" + ",\n".join(f"\t{key}:{value}" for key, value in table.items()) + "\n}"
    if all(len(str(value)) < 60 for value in table.values()):
        assert parse_config_json(text.encode()) == table


@given(st.one_of(st.binary(max_size=60), st.text("{}[]:,\"'\\u0012eE.-+ntf/*x \n", max_size=60).map(str.encode)))
def test_any_bytes_end_in_an_object_or_a_located_error(data: bytes) -> None:
    position = 0
    try:
        value = parse_config_json(data)
    except CorruptError as error:
        value, position = {}, error.position
    assert isinstance(value, dict)
    assert 0 <= position <= len(data)


def parsed(data: bytes) -> tuple[Any, ...]:
    try:
        return (repr(parse_config_json(data)),)
    except CorruptError as error:
        return (str(error), error.position)


_NAMES = st.one_of(st.integers(-99, 1 << 70), _KEYS, st.sampled_from(['a":{"b', "{1:2}", ",7 :", "\\", "\0", "NaN"]))
_NUMBERS = st.sampled_from(["1e999", "-0", "1.5E3", "9" * 64, "9" * 65, "NaN", "Infinity", "5L", "null", "{}", "[[]]"])
_TABLES = st.recursive(
    st.one_of(_KEYS, _NUMBERS), lambda inner: st.dictionaries(_NAMES, inner, max_size=4), max_leaves=9
)


def written(value: Any) -> str:
    if not isinstance(value, dict):
        return value if value in ("1e999", "-0", "{}") or value[:1] in "9NI15n[" else json.dumps(value)
    names = (str(name) if isinstance(name, int) else json.dumps(name, ensure_ascii=False) for name in value)
    return "{" + ",\n".join(f"{name} :{written(item)}" for name, item in zip(names, value.values(), strict=True)) + "}"


@given(st.one_of(_TABLES.map(written), st.text('{}[]:,"\\0127eE.-ntf \n', max_size=40)), st.integers(0, 70))
def test_the_quick_way_gives_what_the_parser_gives(text: str, depth: int) -> None:
    for each in (text, f"{{1:{'[' * depth}{text}{']' * depth}}}"):
        data = each.encode("utf-8", "replace")
        quickly = parsed(data)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(config_json, "_parse_quickly", lambda text: None)
            assert parsed(data) == quickly


def test_every_cut_and_flip_of_a_brokers_file() -> None:
    data = b'{\n\t"dataVersion":{"counter":1},\n\t"offsetTable":{\n\t\t"T@G":{0:17,\n1:-3\n},\'x\':{},\n\t}\n}'
    for end in range(len(data)):
        with pytest.raises(CorruptError) as caught:
            parse_config_json(data[:end])
        assert 0 <= caught.value.position <= end
    for at in range(len(data)):
        for bit in range(8):
            with contextlib.suppress(CorruptError):
                parse_config_json(data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :])
