"""A store whose files in `config/` are not what the broker writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from logdex.rocketmq.consuming.consumer_offsets import ConsumerOffsetManager
from tests.cli.helpers import run, run_json
from tests.unit.rocketmq.consuming.stores import store_with

SIZES = ("--mapped-file-size-commit-log", 4096, "--mapped-file-size-consume-queue", 200)
FLAGS = (*SIZES, "--max-hash-slot-num", 53, "--max-index-num", 60)
DAMAGE = [b"\xff\xfe" + '{"offsetTable":{}}'.encode("utf-16-le"), b'{"offsetTable":{"orders@G":[3]}}', b"", None]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store with 40 messages. The group G has consumed 5 of queue 0; 4 stand in the older
    file."""
    root = tmp_path / "store"
    store_with(root, 40).close()
    for offset in (4, 5):
        ConsumerOffsetManager(root).commit_offset("G", "orders", 0, offset)
    return root


@pytest.mark.parametrize("data", DAMAGE, ids=["UTF-16", "wrong type", "empty", "missing"])
def test_all_commands_tell_that_they_read_the_older_offsets(store: Path, tmp_path: Path, data: bytes | None) -> None:
    newest = store / "config" / "consumerOffset.json"
    newest.unlink()
    if data is not None:
        newest.write_bytes(data)
    asked = {
        "info": ("info", store),
        "sql": ("sql", store, "select queue_offset from consumer_offsets"),
        "offsets": ("offsets", store),
        "stats": ("stats", store),
        "convert": ("convert", store, "--to", "kafka", "-o", tmp_path / "logs", "--no-sync"),
        "consume": ("consume", store, "--group", "G", "--topic", "orders", "--limit", 1),
    }
    codes = {}
    for name, arguments in asked.items():
        ended = run(*arguments, *FLAGS)
        codes[name] = ended.exit_code
        assert f"read {newest}.bak instead" in ended.stderr, (name, ended)
    assert codes == {"info": 1, "sql": 1, "offsets": 1, "stats": 1, "convert": 3, "consume": 0}


@pytest.mark.parametrize("data", [b"{", b""])
def test_a_put_tells_that_it_read_the_older_topics(store: Path, data: bytes) -> None:
    put = ("put", store, "--topic", "orders", "--body", "x", *FLAGS)
    assert ".bak" not in run(*put).stderr
    newest = store / "config" / "topics.json"
    newest.with_suffix(".json.bak").write_bytes(newest.read_bytes())
    newest.write_bytes(data)
    ended = run(*put)
    assert ended.exit_code == 0, ended
    assert f"read {newest}.bak instead" in ended.stderr


def test_the_older_offsets_are_read_for_wrong_types(store: Path) -> None:
    (store / "config" / "consumerOffset.json").write_text('{"offsetTable":{"orders@G":{0:[5]}}}')
    rows = run_json("offsets", store, "--group", "G", *FLAGS, exit_code=1)
    assert [row["offset"] for row in rows if row["queue_id"] == 0] == [4]


def test_stats_count_the_log_without_sound_offsets(store: Path) -> None:
    (store / "config" / "consumerOffset.json").write_text("[]")
    (store / "config" / "consumerOffset.json.bak").unlink()
    told = run_json("stats", store, *FLAGS, exit_code=1)[-1]
    assert (told["messages"], told["groups"]) == (40, [])
    assert "no object starts here" in told["losses"][0]


def test_recover_takes_over_what_the_broker_parses(store: Path, tmp_path: Path) -> None:
    (store / "config" / "consumerOffset.json").write_text('{"offsetTable":[]}')
    told = run("recover", store, "-o", tmp_path / "out", "--no-sync", *FLAGS)
    assert "consumerOffset.json: byte 0: the value is not one that the broker writes" in told.stderr
    assert not (tmp_path / "out" / "config" / "consumerOffset.json").exists()
    ended = run("verify", tmp_path / "out", *FLAGS)
    assert ended.exit_code == 0, ended
    assert "no-config" in ended.stdout


@pytest.mark.parametrize(
    ("backup", "mend"),
    [
        (b'{"offsetTable":{}}', "copy "),
        (b"{", "that a broker does not start"),
        (b"", "that a broker would begin with nothing"),
    ],
)
def test_the_mend_says_what_a_broker_does(store: Path, backup: bytes, mend: str) -> None:
    newest = store / "config" / "consumerOffset.json"
    newest.write_bytes(b"{")
    Path(f"{newest}.bak").write_bytes(backup)
    [found] = [row for row in run_json("verify", store, *FLAGS, exit_code=1) if row.get("check") == "config-json"]
    assert mend in found["mend"]
