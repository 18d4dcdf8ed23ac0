"""Properties as JSON, made without an object per row."""

from __future__ import annotations

import json

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from logdex.convert.columns.rocketmq import json_objects


@given(st.lists(st.dictionaries(st.text(), st.text(), max_size=4), max_size=5), st.integers(0, 3))
def test_json(maps: list[dict[str, str]], start: int) -> None:
    column = pa.array([list(each.items()) for each in maps], pa.map_(pa.string(), pa.string())).slice(start)
    assert [json.loads(text) for text in json_objects(column).to_pylist()] == maps[start:]
