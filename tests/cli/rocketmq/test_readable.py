"""The ways in which messages are printed, by every command that prints some."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from logdex.layout.rocketmq import SYS_FLAG_COMPRESSED
from logdex.rocketmq import Consumer, Message, MessageStore
from tests.cli.helpers import end_of, run, run_json
from tests.unit.rocketmq.small_stores import build, message

BODY = b'{"price": 1.10}'


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store with two messages of one queue; the second one's body is no text."""
    root = tmp_path / "store"
    with MessageStore.open(str(root), mapped_file_size_commit_log=1 << 16) as store:
        store.put_message(Message("t", BODY, tags="paid", keys=["k-1", "k-2"], properties={"x": "1"}, queue_id=0))
        store.put_message(Message("t", b"\xff" * 200, tags="paid", keys="k-1", queue_id=0))
    return root


def commands(store: Path) -> list[list[Any]]:
    return [
        ["cat", store],
        ["cat", store, "--follow", "--limit", "2"],
        ["get", store, "--topic", "t", "--queue", "0", "--offset", "0"],
        ["consume", store, "--topic", "t", "--group", "g"],
    ]


def test_every_command_prints_by_a_template(store: Path) -> None:
    for command in commands(store):
        printed = run(*command, "--format", r"%t/%p\t%o\t%k\t%S\t%g\n").stdout
        assert printed == "t/0\t0\tk-1 k-2\t15\tpaid\nt/0\t1\tk-1\t200\tpaid\n", command
    assert run("query", store, "--topic", "t", "--key", "k-2", "--format", "%v").stdout == BODY.decode()
    row = run_json("query", store, "--topic", "t", "--key", "k-2")[0]
    assert run("message", store, row["msg_id"], "--format", "%i %u %a").stdout == (
        f"{row['msg_id']} {row['unique_key']} {row['physical_offset']}"
    )


def test_every_command_prints_columns_and_values(store: Path) -> None:
    for command in commands(store):
        printed = run(*command, "--columns", "queue_offset,properties.x,body", "--values", "hex").stdout
        assert printed == f"0\t1\t{BODY.hex()}\n1\t\t{'ff' * 200}\n", command
    query = ["query", store, "--topic", "t", "--key", "k-1"]
    assert run(*query, "--columns", "queue_offset,tags").stdout == "1\tpaid\n0\tpaid\n"
    assert [len(run(*query, *more).stdout.splitlines()[0]) > 800 for more in ((), ("--full",))] == [False, True]
    msg_id = run_json(*query)[0]["msg_id"]
    assert run("message", store, msg_id, "--columns", "queue_offset,keys").stdout == "1\tk-1\n"
    assert run_json("message", store, msg_id, "--columns", "queue_offset,keys") == [
        {"queue_offset": 1, "keys": ["k-1"]}
    ]
    assert run("message", store, msg_id, "--full").stdout.endswith("  " + r"\xff" * 200 + "\n")
    assert run_json("cat", store, "--columns", "keys,body_text") == [
        {"keys": ["k-1", "k-2"], "body_text": BODY.decode()},
        {"keys": ["k-1"], "body_text": None},
    ]


def test_every_command_chooses_among_what_it_reads(store: Path) -> None:
    for command in (commands(store)[0], commands(store)[2]):
        assert [row["queue_offset"] for row in run_json(*command, "--where", "queue_offset = 1")] == [1]
        assert [row["queue_offset"] for row in run_json(*command, "--grep", "price")] == [0]
    query = ["query", store, "--topic", "t", "--key", "k-1"]
    assert [row["queue_offset"] for row in run_json(*query, "--grep", "price", "--max", 1)] == [0]
    assert [row["queue_offset"] for row in run_json(*query, "--where", "queue_offset = 1")] == [1]
    assert "no message found" in run(*query, "--grep", "none").stderr
    page = end_of(*query, "--where", "queue_id = 0", "--max", 1)
    assert (page["count"], page["next_cursor"]) == (1, run_json(*query, "--max", 1)[0]["physical_offset"])
    consume = ["consume", store, "--topic", "t", "--group", "filtering"]
    assert [row["queue_offset"] for row in run_json(*consume, "--where", "queue_offset > 0")] == [1]
    assert run_json(*consume) == []  # what was left out is consumed, too
    assert "no field" in run(*query, "--where", "nothing = 1").stderr


def test_values(store: Path) -> None:
    (line,) = run("cat", store, "--limit", 1, "--json", "--values", "json").stdout.splitlines()
    assert '"body": {"price":1.10}' in line
    assert "body" not in json.loads(run("cat", store, "--limit", 1, "--json", "--values", "none").stdout)
    msg_id = json.loads(line)["msg_id"]
    assert run("message", store, msg_id, "--values", "hex").stdout.endswith(f"  {BODY.hex()}\n")
    assert "price" not in run("message", store, msg_id, "--values", "none").stdout


def test_compressed_bodies_are_shown_as_what_they_say(golden_store: Any) -> None:
    store = golden_store("tiny-5.5.0")
    stored = run_json("cat", store)
    place = next(at for at, row in enumerate(stored) if row["sys_flag"] & 1)
    assert stored[place]["body_text"] is None
    plain = run_json("cat", store, "--decompress")[place]["body_text"]
    assert plain is not None
    assert run_json("cat", store, "--values", "text")[place]["body"] == plain
    assert run("cat", store, "--format", r"%v\n").stdout.splitlines()[place] == plain


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--format", "%e"], "--format has no %e"),
        (["--format", "%R"], "--format has no %R"),
        (["--format", "%k", "--json"], "--format and --json exclude each other"),
        (["--columns", "offset"], "there is no field 'offset'"),
    ],
)
def test_what_does_not_fit_is_refused(flags: list[str], told: str, store: Path) -> None:
    for command in commands(store):
        refused = run(*command, *flags)
        assert (refused.exit_code, refused.stdout) == (2, "")
        assert told in refused.stderr


def test_the_last_object_says_what_programs_need_to_know(store: Path) -> None:
    end = end_of("cat", store)
    where = end.pop("log_end")
    assert end == {"end_of": "cat", "count": 2, "is_complete": True, "problems": [], "deleted": []}
    assert (where["offset"], where["kind"]) == (run_json("cat", store)[1]["physical_offset"] + _size(store), "zeros")
    assert end_of("cat", store, "--where", "topic = none")["count"] == 0
    got = {"end_of": "get", "count": 1, "status": "FOUND", "offset": 1, "min_offset": 0, "max_offset": 2}
    assert end_of("get", store, "--topic", "t", "--queue", 0, "--offset", 1) == {
        **got,
        "next_offset": 2,
        "is_complete": True,
        "log_end": None,
        "problems": [],
    }
    asked = end_of("query", store, "--topic", "t", "--key", "k-1", "--max", 1)
    cursor = asked.pop("next_cursor")
    assert asked == {
        "end_of": "query",
        "count": 1,
        "has_more": True,
        "is_complete": True,
        "missing": [],
        "is_missing_scanned": False,
        "entries_behind_end": 0,
        "log_end": None,
        "problems": [],
    }
    rest = run_json("query", store, "--topic", "t", "--key", "k-1", "--cursor", cursor)
    assert [row["keys"] for row in rest] == [["k-1", "k-2"]]
    consumed = end_of("consume", store, "--topic", "t", "--group", "h")
    assert consumed.pop("end_of") == "consume"
    assert consumed.pop("queues") == consumed.pop("queues_read") == 4
    assert consumed == {"count": 2, "group": "h", "is_complete": True, "problems": []}
    assert "end_of" not in run("cat", store, "--limit", 1, "--json").stdout  # the limit ended it, not the log
    assert "end_of" not in run("cat", store).stdout


def _size(store: Path) -> int:
    size: int = run_json("cat", store)[1]["size_bytes"]
    return size


def test_the_last_object_says_why_the_log_ends(store: Path) -> None:
    last = run_json("cat", store)[1]["physical_offset"]
    with (store / "commitlog" / f"{0:020d}").open("r+b") as file:
        file.seek(last + 4)
        file.write(b"\0\0\0\1")
    end = end_of("cat", store, exit_code=1)
    assert (end["count"], end["is_complete"], end["log_end"]["offset"]) == (1, False, last)
    assert end["log_end"]["reason"]


def test_the_last_object_names_bodies_that_do_not_decompress(tmp_path: Path) -> None:
    bad = message(0, keys="hot", body=b"no zlib", sys_flag=SYS_FLAG_COMPRESSED)
    store = build(tmp_path / "store", [bad, message(1, keys="hot")])
    for command in (
        ["cat", store],
        ["cat", store, "--grep", "o"],
        ["cat", store, "--tail", 2, "--grep", "o"],
        ["get", store, "--topic", "TopicA", "--queue", 0, "--offset", 0],
        ["query", store, "--topic", "TopicA", "--key", "hot"],
        ["query", store, "--topic", "TopicA", "--key", "hot", "--broker-semantics"],
        ["message", store, run_json("cat", store)[0]["msg_id"]],
    ):
        count = 1 if command[0] == "message" else 2
        flags: list[Any] = ["--decompress", "--mapped-file-size-consume-queue", 320]
        flags += ["--max-hash-slot-num", 7, "--max-index-num", 12] if command[0] == "query" else []
        end = end_of(*command, *flags, exit_code=1)
        assert (end["count"], end["is_complete"], len(end["problems"])) == (count, False, 1), command
        assert "it is shown as stored, in the message at offset 0" in end["problems"][0]
        assert run(*command, *flags).stderr.count("it is shown as stored") == 1


def test_the_last_object_of_message(store: Path) -> None:
    row = run_json("cat", store)[1]
    topic, place = ("--topic", "t"), store / "commitlog" / f"{0:020d}"
    good = {"end_of": "message", "count": 1, "is_complete": True, "problems": [], "log_end": None}
    assert end_of("message", store, row["msg_id"]) == end_of("message", store, row["unique_key"], *topic) == good
    none = end_of("message", store, "none", *topic, exit_code=1)
    assert none == {**good, "count": 0, "is_complete": False, "problems": ["no message of t has this id"]}
    behind = end_of("message", store, "7F00000100002A9F0000000100000000", exit_code=1)
    assert (behind["count"], behind["is_complete"], len(behind["problems"])) == (0, False, 1)
    assert "4294967296" in behind["problems"][0]
    with place.open("r+b") as file:
        file.seek(row["physical_offset"] + 4)
        file.write(b"harm")
    for command in (["message", store, row["msg_id"]], ["message", store, row["unique_key"], *topic]):
        end = end_of(*command, exit_code=1)
        assert (end["count"], end["is_complete"]) == (0, False)
        assert run(*command).stderr.split("logdex: ")[-1].startswith(end["problems"][0]), command
    alone = end_of("message", place, row["unique_key"], *topic, exit_code=1)
    assert alone["log_end"]["offset"] == row["physical_offset"]
    got = end_of("get", place, "--topic", "t", "--queue", 0, "--offset", 0, exit_code=1)
    assert (got["count"], got["is_complete"], got["log_end"]) == (1, False, alone["log_end"])


def test_the_last_object_of_consume(store: Path) -> None:
    """It names the file of offsets that was read in place of a broken one, and says how many of the
    queues other members of the group have."""
    ask = ("consume", store, "--topic", "t", "--group", "g", "--limit", 1)
    assert (end_of(*ask)["queues_read"], end_of(*ask)["queues"]) == (4, 4)
    offsets = store / "config" / "consumerOffset.json"
    assert offsets.with_name(offsets.name + ".bak").exists()
    offsets.write_bytes(b"broken")
    with Consumer(store, "g", "t"):
        end = end_of(*ask)
    assert (end["queues_read"], end["queues"], end["is_complete"]) == (2, 4, True)
    assert [each.endswith(f"read {offsets}.bak instead") for each in end["problems"]] == [True]


def test_decode_names_the_topic_and_queue_that_a_message_is_for(tmp_path: Path) -> None:
    root = tmp_path / "store"
    with MessageStore.open(str(root)) as store:
        store.put_message(Message("t", b"later", delay_level=3, queue_id=1))
        store.put_half(Message("t", b"half", queue_id=2), "producers")
        store.put_message(Message("%RETRY%group", b"again", properties={"RETRY_TOPIC": "t"}, reconsume_times=2))
        store.put_message(Message("t", b"plain"))
    decoded = [row["decoded"] for row in run_json("cat", root, "--decode")]
    assert decoded == [
        {"type": "delayed message", "real_topic": "t", "real_queue_id": 1, "delay_level": 3},
        {"type": "half message", "real_topic": "t", "real_queue_id": 2},
        {
            "type": "message to consume again",
            "real_topic": "t",
            "group": "group",
            "reconsume_times": 2,
            "origin_message_id": None,
        },
        None,
    ]
    assert all("decoded" not in row for row in run_json("cat", root))
    lines = run("cat", root, "--decode").stdout.splitlines()
    assert '"real_queue_id": 1' in lines[0]
    assert lines[3].endswith("  plain")
