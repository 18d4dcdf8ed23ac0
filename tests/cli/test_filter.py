"""`logdex filter`: it writes what `cat` prints with the same filters, and says what it leaves
out."""

from __future__ import annotations

from pathlib import Path

import pytest

from logdex.jobs.journal import LOCK_NAME
from logdex.kafka import Log, Record
from logdex.rocketmq.message_store.message_store import MessageStore
from logdex.rocketmq.message_store.put.message import Message
from logdex.testing.store_builder import write_commit_log
from tests.cli.helpers import run, run_json
from tests.unit.rocketmq.small_stores import FILE_SIZE, START_MS, message

FLAGS = ("--mapped-file-size-commit-log", FILE_SIZE, "--rocketmq-version", "5.5.0")
PLACE = ("queue_offset", "physical_offset", "msg_id")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """30 messages of two topics, of which every third has the tag red; two more wait."""
    messages = [
        message(
            number // 2, keys=f"k-{number}", tag=("red", "blue", "green")[number % 3], topic=(b"a", b"b")[number % 2]
        )
        for number in range(30)
    ]
    messages += [message(0, topic=b"SCHEDULE_TOPIC_XXXX"), message(1, topic=b"SCHEDULE_TOPIC_XXXX")]
    write_commit_log(str(tmp_path / "store"), messages, FILE_SIZE)
    return tmp_path / "store"


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Two partitions; one has a transaction that was aborted."""
    for partition in (0, 1):
        with Log.open(tmp_path / "logs" / f"orders-{partition}") as log:
            for number in range(20):
                log.append([Record(f"k-{number % 4}".encode(), f"v-{number}".encode(), timestamp_ms=1000 + number)])
            if partition:
                transaction = log.transaction(7)
                transaction.append([Record(None, b"aborted")])
                transaction.abort()
                log.append([Record(None, b"last", timestamp_ms=2000)])
    (tmp_path / "logs" / "meta.properties").write_text("version=1\ncluster.id=abc\nnode.id=1\n")
    return tmp_path / "logs"


@pytest.mark.parametrize(
    "wanted",
    [
        ("--topic", "a"),
        ("--topic", "b", "--queue", 0, "--offset", 7),
        ("--topic", "a", "--grep", "red"),
        ("--topic", "b", "--where", "tags = blue", "--where", "queue_offset >= 5"),
        ("--topic", "a", "--grep", "/k-1[0-9]/"),
        ("--topic", "a", "--limit", 4),
        ("--topic", "b", "--where", "tags = blue", "--limit", 2),
        ("--topic", "SCHEDULE_TOPIC_XXXX"),
        ("--topic", "a", "--where", "tags = no-such-tag"),
        ("--topic", "a", "--from", START_MS + 4 * 1500, "--to", START_MS + 6 * 1500),
    ],
)
def test_what_cat_prints_of_a_store(store: Path, tmp_path: Path, wanted: tuple[object, ...]) -> None:
    expected = run_json("cat", store, *wanted, *FLAGS)
    (report,) = run_json("filter", store, "--output", tmp_path / "out", *wanted, *FLAGS)
    assert (report["messages"], report["losses"], report["notes"]) == (len(expected), [], [])
    found = run_json("cat", tmp_path / "out", *FLAGS) if expected else []
    for row in (*expected, *found):
        for field in PLACE:
            del row[field]
    assert found == expected


def test_from_a_physical_offset_on(store: Path, tmp_path: Path) -> None:
    rows = run_json("cat", store, "--topic", "b", *FLAGS)
    wanted = ("--topic", "b", "--physical-offset", rows[11]["physical_offset"])
    (report,) = run_json("filter", store, "--output", tmp_path / "out", *wanted, *FLAGS)
    assert report["messages"] == len(rows) - 11 == 4
    found = [row["keys"] for row in run_json("cat", tmp_path / "out", *FLAGS)]
    assert found == [row["keys"] for row in rows[11:]]
    bounds = ("--from", rows[2]["store_timestamp_ms"], "--to", rows[3]["store_timestamp_ms"])
    (report,) = run_json("filter", store, "--output", tmp_path / "timed", "--topic", "b", *bounds, *FLAGS)
    assert report["messages"] == 2


def test_what_an_engine_has_yet_to_deliver_is_left_out(store: Path, tmp_path: Path) -> None:
    ended = run("filter", store, "-o", tmp_path / "out", *FLAGS)
    assert ended.exit_code == 0
    assert "2 messages of SCHEDULE_TOPIC_XXXX left out: --topic SCHEDULE_TOPIC_XXXX has them" in ended.stderr
    assert ended.stdout.startswith("Wrote 30 messages of 2 queues to ")
    assert run("verify", tmp_path / "out", *FLAGS).exit_code == 0


def test_the_new_store_is_written_and_read_on(store: Path, tmp_path: Path) -> None:
    assert run("filter", store, "-o", tmp_path / "out", "--topic", "a", *FLAGS).exit_code == 0
    with MessageStore.open(tmp_path / "out", mapped_file_size_commit_log=FILE_SIZE) as opened:
        assert opened.put_message(Message("a", b"more", queue_id=0)).queue_offset == 15
        opened.dispatch()
        assert len(opened.query_message("a", "k-4").messages) == 1
        assert len(opened.query_message("a", "k-5").messages) == 0


@pytest.mark.parametrize(
    "wanted",
    [
        (),
        ("--limit", 23),
        ("--grep", "k-3", "--limit", 7),
        ("--partition", 1, "--offset", 15),
        ("--grep", "k-3"),
        ("--where", "offset >= 18"),
        ("--where", "key = k-2", "--from", 1005, "--to", 1010),
        ("--topic", "orders", "--where", "value = nothing"),
    ],
)
def test_what_cat_prints_of_logs(logs: Path, tmp_path: Path, wanted: tuple[object, ...]) -> None:
    fields = ("--columns", "topic,partition,offset,timestamp_ms,key,value,headers")
    expected = run_json("cat", logs, *wanted, *fields, "--isolation-level", "read_committed")
    (report,) = run_json("filter", logs, "--output", tmp_path / "out", *wanted)
    assert (report["messages"], report["losses"]) == (len(expected), [])
    assert run_json("cat", tmp_path / "out", *fields) == expected
    if expected:
        assert (tmp_path / "out" / "meta.properties").read_bytes() == (logs / "meta.properties").read_bytes()
    assert run("verify", tmp_path / "out").exit_code == 0


def test_aborted_records_are_written_if_asked_for(logs: Path, tmp_path: Path) -> None:
    uncommitted = ("--isolation-level", "read_uncommitted")
    assert run("filter", logs, "-o", tmp_path / "out", "--partition", 1, *uncommitted).exit_code == 0
    rows = run_json("cat", tmp_path / "out", "--isolation-level", "read_committed")
    assert [row["offset"] for row in rows] == [*range(21), 22]


def test_an_open_transaction_is_a_loss(logs: Path, tmp_path: Path) -> None:
    """Of what is behind its beginning nothing is in the output, and no later run adds it."""
    with Log.open(tmp_path / "logs" / "orders-0") as log:
        log.append([Record(b"open", b"v", timestamp_ms=3000)], producer_id=3, producer_epoch=0, transactional=True)
        log.append([Record(b"behind", b"v", timestamp_ms=3001)])
    ended = run("filter", logs, "-o", tmp_path / "out")
    assert ended.exit_code == 3
    told = "orders-0: offsets 20 to 21 are not read: a transaction is open since offset 20"
    assert f"{told} (--isolation-level read_uncommitted reads on)" in ended.stderr
    ended = run("filter", logs, "-o", tmp_path / "out-1", "--offset", 21)
    assert "orders-0: offset 21 is not read: a transaction is open since offset 20" in ended.stderr
    uncommitted = ("--isolation-level", "read_uncommitted", "--partition", 0)
    assert run("filter", logs, "-o", tmp_path / "out-2", *uncommitted).exit_code == 0
    for place, wanted in enumerate(
        (("--to", 2999), ("--partition", 1), ("--grep", "v-3"), ("--where", "offset < 20"), ("--limit", 3)), 3
    ):
        ended = run("filter", logs, "-o", tmp_path / f"out-{place}", *wanted)
        assert (ended.exit_code, ended.stderr) == (0, ""), wanted
    assert run("filter", logs, "-o", tmp_path / "out-9", "--grep", "behind").exit_code == 3


def test_records_below_the_log_start_are_told(logs: Path, tmp_path: Path) -> None:
    with Log.open(tmp_path / "logs" / "orders-0") as log:
        log.delete_records(8)
    ended = run("filter", logs, "-o", tmp_path / "out", "--grep", "k-1")
    assert ended.exit_code == 0
    assert "orders-0: 2 records below the log start offset 8 left out, which no consumer reads" in ended.stderr


def test_what_is_left_out_is_counted_of_what_passes(store: Path, tmp_path: Path) -> None:
    ended = run("filter", store, "-o", tmp_path / "out", "--grep", "k-3", *FLAGS)
    assert (ended.exit_code, ended.stderr) == (0, "")


def test_new_offsets(logs: Path, tmp_path: Path) -> None:
    assert run("filter", logs, "-o", tmp_path / "out", "--where", "key = k-1", "--new-offsets").exit_code == 0
    rows = run_json("cat", tmp_path / "out")
    assert [(row["partition"], row["offset"]) for row in rows] == [(p, o) for p in (0, 1) for o in range(5)]


def test_damage_is_a_loss(logs: Path, store: Path, tmp_path: Path) -> None:
    path = logs / "orders-0" / f"{0:020d}.log"
    data = bytearray(path.read_bytes())
    data[data.index(b"v-10")] ^= 0xFF
    path.write_bytes(data)
    (report,) = run_json("filter", logs, "-o", tmp_path / "out", "--partition", 0, exit_code=3)
    assert report["messages"] == 19
    assert "not written: " in run("filter", logs, "-o", tmp_path / "other", "--partition", 0).stderr
    path = logs / "orders-1" / f"{0:020d}.log"
    data = bytearray(path.read_bytes())
    data[2] ^= 1  # of the first base offset, which no checksum covers
    path.write_bytes(data)
    (report,) = run_json("filter", logs, "-o", tmp_path / "fourth", "--partition", 1, exit_code=3)
    assert report["messages"] == 20  # of 21
    assert "contradicts" in report["losses"][0]
    log = store / "commitlog" / f"{0:020d}"
    data = bytearray(log.read_bytes())
    data[data.index(b"body 2")] ^= 0xFF
    log.write_bytes(data)
    (report,) = run_json("filter", store, "-o", tmp_path / "third", *FLAGS, exit_code=3)
    assert 0 < report["messages"] < 30
    assert report["losses"][0].startswith("what lies behind offset")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ((), "where to?"),
        (("-o", "out", "--topic", "ordres"), "did you mean"),
        (("-o", "out", "--queue", 1), "--queue is a flag of RocketMQ's"),
        (("-o", "out", "--where", "nothing"), "is no comparison"),
        (("-o", "out", "--from", 5, "--to", 4), "later"),
        (("-o", "logs"), "logs"),
        (("-o", "full"), "not empty"),
    ],
)
def test_refused(
    logs: Path, tmp_path: Path, more: tuple[object, ...], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    ended = run("filter", "logs", *more)
    assert ended.exit_code == 2, ended
    assert said in ended.stderr
    assert not (tmp_path / "out" / LOCK_NAME).exists()
