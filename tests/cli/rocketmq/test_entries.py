"""`cat` of a ConsumeQueue file, an IndexFile or the checkpoint lists its entries."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

from logdex.cli.output import human_time
from tests.cli.helpers import run, run_json
from tests.directories import tree_hash
from tests.golden import rocketmq as golden

NAME = "tiny-5.5.0"


def test_a_consume_queue_file(golden_store: Any) -> None:
    store = golden_store(NAME)
    before = tree_hash(store)
    path = sorted((store / "consumequeue" / "TopicA" / "0").iterdir())[0]
    start = int(path.name) // 20
    written = [row for row in struct.iter_unpack(">qiq", path.read_bytes()) if row[1] > 0]
    expected = [
        {"queue_offset": start + at, "physical_offset": row[0], "size_bytes": row[1], "tags_code": row[2]}
        for at, row in enumerate(written)
    ]
    assert run_json("cat", path) == expected != []
    assert run_json("cat", path, "--offset", start + 1, "--limit", 1) == expected[1:2]
    first = expected[0]
    assert run("cat", path, "--limit", 1).stdout == "  ".join(f"{name} {first[name]}" for name in first) + "\n"
    assert tree_hash(store) == before


def test_an_index_file(golden_store: Any) -> None:
    store, sizes = golden_store(NAME), golden.manifest(NAME)["geometry"]
    path = sorted((store / "index").iterdir())[0]
    data = path.read_bytes()
    begin_ms, count = struct.unpack_from(">q", data, 0)[0], struct.unpack_from(">i", data, 36)[0]
    at = 40 + 4 * sizes["hashSlots"]
    rows = [struct.unpack_from(">iqii", data, at + 20 * number) for number in range(1, count)]
    expected = [
        {
            "number": number,
            "key_hash": row[0],
            "physical_offset": row[1],
            "store_timestamp_ms": begin_ms + 1000 * row[2],
            "previous_number": row[3],
        }
        for number, row in enumerate(rows, 1)
    ]
    assert run_json("cat", path) == expected != []
    flags = ("--max-hash-slot-num", sizes["hashSlots"], "--max-index-num", sizes["maxIndexNum"])
    assert run_json("cat", path, *flags, "--offset", 3, "--limit", 2) == expected[2:4]
    columns = run("cat", path, "--columns", "number,key_hash", "--limit", 1).stdout
    assert columns == f"1\t{expected[0]['key_hash']}\n"


def test_what_is_about_messages_is_refused(golden_store: Any, tmp_path: Path) -> None:
    path = sorted((golden_store(NAME) / "index").iterdir())[0]
    for flags in (["--grep", "x"], ["--tail", "1"], ["--topic", "t"], ["--format", "%k"], ["--columns", "body"]):
        refused = run("cat", path, *flags)
        assert (refused.exit_code, refused.stdout) == (2, "")
        assert "is about messages" in refused.stderr or "there is no field 'body'" in refused.stderr
    (tmp_path / "topics.json").write_text("{}")
    told = run("cat", tmp_path / "topics.json")
    assert (told.exit_code, "contains no messages" in told.stderr) == (2, True)
    told = run("cat", golden_store(NAME) / "checkpoint", "--offset", 1)
    assert (told.exit_code, "--offset is about messages" in told.stderr) == (2, True)


def test_the_checkpoint(golden_store: Any, tmp_path: Path) -> None:
    path = golden_store(NAME) / "checkpoint"
    times = struct.unpack_from(">3q", path.read_bytes())
    (entry,) = run_json("cat", path)
    assert (*entry.values(),)[:3] == times
    assert all(times)
    text = run("cat", path).stdout
    assert text.startswith(f"physic_msg_timestamp_ms {times[0]} ({human_time(times[0])})  logics_msg_timestamp_ms ")
    assert run("cat", path, "--columns", "index_msg_timestamp_ms").stdout == f"{times[2]}\n"
    short = tmp_path / "checkpoint"
    short.write_bytes(b"short")
    told = run("cat", short)
    assert told.exit_code in (1, 2)
    assert "checkpoint: byte 5" in told.stderr
