"""logdex bench of Kafka paths: every figure is there, and nothing of the log is touched."""

from __future__ import annotations

from typing import Any

from tests.cli.helpers import run, run_json
from tests.directories import tree_hash

NAMES = [
    "scan with CRC",
    "decode to Arrow",
    "rebuild, unsynced",
    "look-ups by offset",
    "look-ups by offset, in bulk",
    "look-ups by time",
    "look-ups by time, in bulk",
]


def test_figures(golden_log: Any) -> None:
    store = golden_log("tiny-broker")
    before = tree_hash(store)
    figures = run_json("bench", store)
    assert [figure["name"] for figure in figures] == NAMES
    assert all(figure["count"] > 0 and figure["seconds"] > 0 for figure in figures)
    assert figures[0]["size_bytes"] == sum(path.stat().st_size for path in store.rglob("*.log"))
    text = run("bench", next(store.glob("*-0")))
    assert text.exit_code == 0
    assert all(name in text.stdout for name in NAMES[:3])
    assert tree_hash(store) == before


def test_flags_of_the_other_format_are_refused(golden_log: Any) -> None:
    result = run("bench", golden_log("tiny-broker"), "--max-index-num", 7)
    assert result.exit_code == 2
    assert "RocketMQ" in result.stderr
