"""The real engines open what `recover` makes of damaged stores: they walk over the placeholders and
serve every message behind them, by queue and by key."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from logdex.rocketmq.geometry.resolve import resolve_config
from logdex.rocketmq.recover import RecoverReport, recover
from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot
from logdex.rocketmq.verify import verify
from tests.interop.rocketmq.engines import VERSIONS
from tests.interop.rocketmq.scenarios import index_contents, queue_files, run_peer, write_scenario

pytestmark = [pytest.mark.needs_java, pytest.mark.timeout(600), pytest.mark.slow]

SIZE = 16384
KEYS = [f"k{number}" for number in range(20)]


def overwrite(root: Path, offset: int, data: bytes) -> None:
    path = root / "commitlog" / f"{offset // SIZE * SIZE:020d}"
    old, at = path.read_bytes(), offset % SIZE
    path.write_bytes((old[:at] + data + old[at + len(data) :])[:SIZE])


def damage(root: Path, what: str) -> None:
    """One of the things that happen to a log."""
    with StoreSnapshot(root) as store:
        offsets = [message.physical_offset for message in store.scan()]
    files = sorted((root / "commitlog").iterdir())
    if what == "messages":
        for number in (0, 7, 8, 9, len(offsets) // 2, len(offsets) - 3):
            overwrite(root, offsets[number] + 4, b"\xff" * 60)
    elif what == "pages":
        overwrite(root, 4096, bytes(4096))
        overwrite(root, SIZE + 8192, b"\x5a" * 5000)
    elif what == "file":
        files[1].unlink()
    elif what == "end of a file":
        overwrite(root, SIZE - 3000, b"\x5a" * 3000)
    elif what == "tail":
        overwrite(root, offsets[-2], b"\x5a" * 700)
    elif what == "later":  # the oldest file has expired, so that no message is in the file 0
        files[0].unlink()
        overwrite(root, SIZE + 100, b"\x5a" * 3000)
        overwrite(root, 2 * SIZE, bytes(2000))


def opened(peers: Path, version: str, store: Path, work: Path) -> list[dict[str, Any]]:
    """What the real engine tells of a copy of the store, which it then shuts down cleanly as
    `work/kept`."""
    work.mkdir()
    (work / "queries").write_text("".join(f"T\t{key}\t64\t0\t{1 << 62}\n" for key in KEYS))
    arguments = ("DumpStore", "--dir", store, "--keep", work / "kept", "--queries", work / "queries")
    return [json.loads(line) for line in run_peer(peers, version, *arguments).splitlines()]


def check_served(lines: list[dict[str, Any]], out: Path, report: RecoverReport) -> None:
    (told,) = (line for line in lines if line["type"] == "store")
    assert (told["loaded"], told["dispatched"]) == (True, True)
    assert told["maxPhyOffsetAfterLoad"] == told["maxPhyOffset"] == report.end_offset
    with StoreSnapshot(out) as store:
        messages = [*store.scan()]
        by_key = {key: {each.physical_offset for each in store.query_message("T", key).messages} for key in KEYS}
    walked = [(line["physicalOffset"], line["size"], line["topic"]) for line in lines if line["type"] == "message"]
    assert walked == [(each.physical_offset, each.size_bytes, each.topic.decode()) for each in messages]
    assert sum(topic == "LOGDEX_LOST" for *_, topic in walked) == report.placeholders
    read = {
        (line["topic"], line["queueId"], line["queueOffset"]): line["physicalOffset"]
        for line in lines
        if line["type"] == "entry" and line["read"]
    }
    queued = {(each.topic.decode(), each.queue_id, each.queue_offset): each for each in messages if each.is_queued}
    assert {at: each.physical_offset for at, each in queued.items()} == read
    assert not any(line["topic"] == "LOGDEX_LOST" for line in lines if line["type"] in ("queue", "entry"))
    assert {line["key"]: set(line["physicalOffsets"]) for line in lines if line["type"] == "query"} == by_key


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("what", ["messages", "pages", "file", "end of a file", "tail", "later"])
def test_the_real_engine_serves_what_was_saved(what: str, version: str, peers_dir: Path, tmp_path: Path) -> None:
    store = write_scenario(peers_dir, version, "plain", tmp_path / "store", "--messages", "500")
    out = tmp_path / "out"
    config = resolve_config(str(store))
    damage(store, what)
    report = recover(store, out, config, sync=False)
    assert report.lossy
    assert [str(each) for each in verify(str(out), config).findings] == []
    check_served(opened(peers_dir, version, out, tmp_path / "work"), out, report)
    kept = tmp_path / "work" / "kept"
    assert queue_files(kept) == queue_files(out)
    assert index_contents(kept) == index_contents(out)
    assert {path.name: path.read_bytes() for path in (kept / "commitlog").iterdir() if any(path.read_bytes())} == {
        path.name: path.read_bytes() for path in (out / "commitlog").iterdir()
    }


@pytest.mark.parametrize("version", VERSIONS)
def test_the_real_engine_goes_on_with_it(version: str, peers_dir: Path, tmp_path: Path) -> None:
    """A broker appends to the new log, and verify finds nothing."""
    store, out = write_scenario(peers_dir, version, "plain", tmp_path / "store"), tmp_path / "out"
    config = resolve_config(str(store))
    damage(store, "messages")
    report = recover(store, out, config, sync=False)
    with StoreSnapshot(out, config=config) as before:
        saved = [each.physical_offset for each in before.scan()]
    write_scenario(peers_dir, version, "plain", out, "--clock-start", "1700001000000")
    assert [str(each) for each in verify(str(out), config).findings] == []
    with StoreSnapshot(out, config=config) as after:
        messages = [*after.scan()]
    assert [each.physical_offset for each in messages][: len(saved)] == saved
    assert len(messages) == len(saved) + 200
    assert messages[len(saved)].physical_offset >= report.end_offset
