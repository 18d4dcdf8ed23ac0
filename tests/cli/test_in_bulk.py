"""Lines of JSON from Arrow batches: the kernels write what `json.dumps` writes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from logdex.arrow_text import json_lines
from logdex.arrow_text.json_lines import JsonLines
from logdex.cli.rows import in_bulk
from logdex.jobs import tasks
from tests.cli.helpers import run
from tests.examples import some
from tests.golden import kafka as golden_kafka
from tests.golden import rocketmq as golden

_BYTES = st.one_of(
    st.binary(max_size=40),
    st.text(max_size=20).map(str.encode),
    st.sampled_from(
        [b"", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xc0\x80", b"a\xe2\x82", b'"\\\n\r\t\b\f\x00\x1f\x7f', b"x" * 300]
    ),
)
_TEXT = st.text(max_size=20)
_NAME = pa.field("key", pa.binary(), nullable=False)
SCHEMA = pa.schema(
    [
        ("topic", pa.dictionary(pa.int32(), pa.string())),
        ("offset", pa.int64()),
        ("queue_id", pa.int32()),
        ("producer_epoch", pa.int16()),
        ("is_control", pa.bool_()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.list_(pa.struct([_NAME, ("value", pa.binary())]))),
        ("properties", pa.map_(pa.string(), pa.string())),
        ("keys", pa.list_(pa.string())),
        ("tags", pa.string()),
    ]
)
ROW: dict[str, Any] = {
    "topic": st.none() | _TEXT,
    "offset": st.none() | st.integers(-(1 << 63), (1 << 63) - 1),
    "queue_id": st.integers(-(1 << 31), (1 << 31) - 1),
    "producer_epoch": st.none() | st.integers(-(1 << 15), (1 << 15) - 1),
    "is_control": st.booleans(),
    "key": st.none() | _BYTES,
    "value": _BYTES,
    "headers": st.lists(st.fixed_dictionaries({"key": _BYTES, "value": st.none() | _BYTES}), max_size=3),
    "properties": st.dictionaries(_TEXT, _TEXT, max_size=4).map(lambda found: [*found.items()]),
    "keys": st.lists(_TEXT, max_size=3),
    "tags": st.none() | _TEXT,
}


@given(st.lists(st.fixed_dictionaries(ROW), max_size=8), st.integers(0, 8))
def test_kernels_write_what_python_writes(rows: list[dict[str, Any]], start: int) -> None:
    batch = pa.RecordBatch.from_pylist(rows, SCHEMA).slice(start)
    lines = JsonLines(SCHEMA, ("key", "value"))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(json_lines, "is_plain_quicker", lambda: False)
        found = bytes(lines.lines(batch))
        patched.setattr(json_lines, "is_plain_quicker", lambda: True)
        assert found == bytes(lines.lines(batch))
    for line, row in zip(found.decode().split("\n"), rows[start:], strict=False):
        assert json.loads(line)["offset"] == row["offset"]


def spied(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Notes the number of threads of each time that rows are printed in bulk."""
    used: list[int] = []

    def in_order(name: str, function: Any, items: Any, jobs: int) -> Any:
        used.append(jobs)
        return tasks.in_order(name, function, items, jobs)

    monkeypatch.setattr(in_bulk, "in_order", in_order)
    return used


@pytest.mark.parametrize("plain", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_cat_prints_the_same_in_bulk(
    plain: bool, golden_store: Callable[[str], Path], golden_log: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [
        *map(golden_store, some(("tiny-5.5.0", "tiny-torn", "tiny-broker", "tiny-4.7.0"), 2)),
        *map(golden_log, some(("tiny-broker", "tiny-crash", "tiny-legacy", "tiny-compacted"), 2)),
    ]
    for path in paths:
        for flags in (["--json"], ["--json", "--limit", 7], [], ["--full"], ["--values", "none", "--limit", 7]):
            monkeypatch.undo()
            by_rows = run("cat", path, *flags)
            monkeypatch.setattr(in_bulk, "SMALL_BYTES", 0)
            monkeypatch.setattr(in_bulk, "FEW_ROWS", -1)
            monkeypatch.setattr(in_bulk, "_PART_ROWS", 5)
            used = spied(monkeypatch)
            monkeypatch.setattr(json_lines, "is_plain_quicker", lambda: plain)
            for jobs in (1, 3):
                assert run("cat", path, *flags, "--jobs", jobs) == by_rows, path
            assert used == [1, 3]


@pytest.mark.slow
@pytest.mark.parametrize("name", [*golden.NAMES, *golden_kafka.NAMES])
def test_golden_cases(
    name: str, golden_store: Callable[[str], Path], golden_log: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    for there, path_of in ((golden.NAMES, golden_store), (golden_kafka.NAMES, golden_log)):
        if name not in there:
            continue
        for flags in (["--json"], [], ["--full"]):
            monkeypatch.undo()
            by_rows = run("cat", path_of(name), *flags)
            monkeypatch.setattr(in_bulk, "SMALL_BYTES", 0)
            monkeypatch.setattr(json_lines, "is_plain_quicker", lambda: False)
            used = spied(monkeypatch)
            assert run("cat", path_of(name), *flags) == by_rows
            assert len(used) == 1
