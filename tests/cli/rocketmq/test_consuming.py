"""`put`, `consume`, `offsets` and `cat --follow` of a RocketMQ store."""

from __future__ import annotations

import shutil
import threading
import time
import zlib
from pathlib import Path

import pytest

from logdex.layout.rocketmq import SYS_FLAG_COMPRESSED
from logdex.rocketmq.consuming.consumer import Consumer
from logdex.rocketmq.consuming.consumer_offsets import ConsumerOffsetManager
from logdex.rocketmq.message.stored_message import StoredMessage
from logdex.rocketmq.message_store.message_store import MessageStore
from logdex.rocketmq.message_store.put.message import Message
from tests.cli.helpers import rows_of, run, run_json
from tests.unit.rocketmq.consuming.stores import put_numbers, store_with
from tests.unit.rocketmq.small_stores import FILE_SIZE, build, message

SMALL = ("--mapped-file-size-commit-log", 4096, "--mapped-file-size-consume-queue", 200)
INDEX = ("--max-hash-slot-num", 53, "--max-index-num", 60)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store with 40 numbered messages in the 4 queues of the topic `orders`."""
    store_with(tmp_path / "store", 40).close()
    return tmp_path / "store"


def test_put_makes_a_store_and_says_where_the_message_is(tmp_path: Path) -> None:
    flags = ("--topic", "orders", "--keys", "k1", "--keys", "k2", "--tags", "paid", "--queue", 2)
    told = run("put", tmp_path / "new", "--create", "rocketmq", *flags, "--body", "héllo", *SMALL, *INDEX)
    assert told.exit_code == 0, told
    assert told.stdout.startswith("orders/2  offset 0  at 0  ")
    [line] = run_json("put", tmp_path / "new", *flags, "--body", "again", *SMALL, *INDEX)
    assert (line["queue_offset"], line["topic"]) == (1, "orders")
    [found] = run_json("message", tmp_path / "new", line["msg_id"])
    assert found["keys"] == ["k1", "k2"]
    assert run_json("query", tmp_path / "new", "--topic", "orders", "--key", "k2", "--max", 1) == [found]
    assert run("verify", tmp_path / "new", *SMALL, *INDEX).exit_code == 0


def test_put_takes_what_cat_prints(store: Path, tmp_path: Path) -> None:
    lines = run("cat", store, "--json").stdout
    (tmp_path / "lines").write_text(f'{lines}\n{{"body_text": "x", "tags": null}}\n')
    copy = tmp_path / "copy"
    put = run_json(
        "put", copy, "--create", "rocketmq", "--topic", "other", "--file", tmp_path / "lines", *SMALL, *INDEX
    )
    assert len(put) == 41
    assert put[-1]["topic"] == "other"
    again = run_json("cat", copy, "--topic", "orders")
    names = (
        "topic",
        "queue_id",
        "queue_offset",
        "body",
        "tags",
        "keys",
        "unique_key",
        "properties",
        "born_timestamp_ms",
    )
    assert [[row[name] for name in names] for row in again] == [[row[name] for name in names] for row in rows_of(lines)]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("[1]", "line 2 is no JSON object"),
        ("{", "line 2 is no JSON"),
        ('{"body": "%"}', "line 2: body is no base64"),
        ('{"topic": 7}', "line 2: which topic?"),
        ('{"properties": [1]}', "line 2: the properties"),
        ('{"properties": {"": "x"}}', "the property name"),
        ('{"queue_id": 9}', "has the queues 0 to 3"),
        ('{"queue_id": "x"}', 'line 2: queue_id cannot be "x"'),
        ('{"tags": 5}', "line 2: tags cannot be 5"),
        ('{"flag": true}', "line 2: flag cannot be true"),
        ('{"keys": ["a", 5]}', "line 2: keys are texts"),
        ('{"born_host": "x"}', "is not a host"),
        ('{"sys_flag": 99999999999}', "MESSAGE_ILLEGAL"),
        ('{"body_text": 5}', "line 2: body_text is no text"),
    ],
)
def test_a_bad_line_is_named(store: Path, tmp_path: Path, line: str, told: str) -> None:
    (tmp_path / "lines").write_text(f'{{"body_text": "good"}}\n{line}\n')
    result = run("put", store, "--topic", "orders", "--file", tmp_path / "lines", *SMALL, *INDEX)
    assert result.exit_code == 2
    assert told in result.stderr
    assert "unexpected" not in result.stderr
    assert run("verify", store, *SMALL, *INDEX).exit_code == 0


def test_put_says_what_is_missing(store: Path, tmp_path: Path) -> None:
    assert "--body" in run("put", store, "--topic", "orders").stderr
    assert "--topic" in run("put", store, "--body", "x", *SMALL, *INDEX).stderr
    assert "--create rocketmq" in run("put", tmp_path / "no", "--create", "x", "--topic", "a", "--body", "x").stderr
    assert run("put", tmp_path / "no", "--topic", "a", "--body", "x").exit_code == 2
    assert not (tmp_path / "no").exists()
    with MessageStore.open(store):
        assert "open in this process" in run("put", store, "--topic", "orders", "--body", "x", *SMALL, *INDEX).stderr


def test_consume_goes_on_where_it_ended(store: Path) -> None:
    numbers = []
    for count in (3, 30, 20):
        lines = run_json("consume", store, "--topic", "orders", "--group", "G", "--limit", count)
        numbers += [line["queue_id"] + 4 * line["queue_offset"] for line in lines]
    assert sorted(numbers) == list(range(40))
    told = run("consume", store, "--topic", "orders", "--group", "G")
    assert (told.exit_code, told.stdout) == (0, "")
    assert "4 queues of orders" in told.stderr
    [line] = run_json("consume", store, "--topic", "orders", "--group", "H", "--tag", "odd || x", "--limit", 1)
    assert line["tags"] == "odd"
    assert run_json("consume", store, "--topic", "orders", "--group", "L", "--start", "last") == []
    assert ConsumerOffsetManager(store).query_offsets("L", "orders") == {0: 10, 1: 10, 2: 10, 3: 10}


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (("--topic", "orders"), "--group"),
        (("--group", "G"), "--topic"),
        (("--group", "G", "--topic", "ordres"), "no topic 'ordres'"),
        (("--group", "a b", "--topic", "orders"), "group"),
        (("--group", "G", "--topic", "orders", "--start", "x"), "--start"),
        (("--group", "G", "--topic", "orders", "--tag", "||"), "tag"),
    ],
)
def test_consume_says_what_is_wrong(store: Path, flags: tuple[str, ...], told: str) -> None:
    result = run("consume", store, *flags)
    assert result.exit_code == 2
    assert told in result.stderr
    assert ConsumerOffsetManager(store).read().offsets == {}


@pytest.mark.parametrize(("kind", "told"), [("rocketmq", "queues 0 to 3, not 9"), ("kafka", "a flag of RocketMQ's")])
def test_a_queue_that_is_refused_leaves_no_store_behind(kind: str, told: str, tmp_path: Path) -> None:
    path = tmp_path / "orders-0"
    result = run("put", path, "--create", kind, "--topic", "orders", "--body", "x", "--queue", 9)
    assert (result.exit_code, told in result.stderr, path.exists()) == (2, True, False)


def test_consume_says_that_another_member_has_the_queues(store: Path) -> None:
    with Consumer(store, "G", "orders") as member:
        assert len(member.poll(1)) == 1
        told = run("consume", store, "--topic", "orders", "--group", "G")
        assert "it read 0 queues of orders; other members of the group have the others" in told.stderr
    told = run("consume", store, "--topic", "orders", "--group", "G")
    assert "other members" not in told.stderr


@pytest.mark.parametrize("command", ["consume", "offsets"])
def test_a_store_without_its_queues_is_not_called_consumed(store: Path, command: str) -> None:
    flags = ("--topic", "orders", "--group", "g")
    assert run("consume", store, *flags, "--limit", 3).exit_code == 0
    shutil.rmtree(store / "consumequeue")
    told = run(command, store, *flags)
    assert (told.exit_code, told.stdout) == (2, ""), told
    assert f"{store}/consumequeue: the log has messages, and there are no ConsumeQueues" in told.stderr
    assert f"logdex rebuild {store} --in-place" in told.stderr
    assert run("rebuild", store, "--in-place", "--no-sync", *SMALL, *INDEX).exit_code == 0
    assert len(run_json("consume", store, *flags)) == 37


def test_billions_of_queues_are_refused(store: Path) -> None:
    topics = store / "config" / "topics.json"
    topics.write_text(topics.read_text().replace('"readQueueNums":4', '"readQueueNums":2147483647'))
    told = run("consume", store, "--topic", "orders", "--group", "g")
    assert told.exit_code == 2, told
    assert "2147483647 queues" in told.stderr


def test_offsets_and_lag(store: Path) -> None:
    assert "no group" in run("offsets", store).stderr
    run("consume", store, "--topic", "orders", "--group", "G", "--limit", 13)
    rows = run_json("offsets", store)
    assert sum(row["offset"] for row in rows) == 13
    assert [row["lag"] for row in rows] == [10 - row["offset"] for row in rows]
    assert {row["group"] for row in rows} == {"G"}
    told = run("offsets", store, "--group", "G", "--topic", "orders").stdout
    assert told.splitlines()[0].split() == ["group", "topic", "queue", "offset", "from", "to", "(excl.)", "lag"]
    [first, *_] = run_json("offsets", store, "--group", "N", "--topic", "orders")
    assert (first["offset"], first["lag"]) == (None, 10)


def test_offsets_are_reset_after_a_look(store: Path) -> None:
    reset = ("offsets", store, "--group", "G", "--topic", "orders", "--reset-to")
    run("consume", store, "--topic", "orders", "--group", "G")
    told = run(*reset, "earliest")
    assert "nothing was changed" in told.stderr
    assert told.stdout.splitlines()[1].split() == ["G", "orders", "0", "10", "0", "10", "0", "0"]
    offsets = ConsumerOffsetManager(store)
    assert offsets.query_offsets("G", "orders") == {0: 10, 1: 10, 2: 10, 3: 10}
    done = run(*reset, 4, "--yes")
    assert (done.exit_code, "these offsets were reset" in done.stderr) == (0, True)
    assert offsets.query_offsets("G", "orders") == {0: 4, 1: 4, 2: 4, 3: 4}
    assert [row["reset_to"] for row in run_json(*reset, "99")] == [10, 10, 10, 10]
    assert "offset 99 is not there everywhere: the nearest one is taken" in run(*reset, "99").stderr
    for wrong in ("yesterday", "-5"):
        refused = run(*reset, wrong)
        assert refused.exit_code == 2
        assert f"'{wrong}' is no time and no offset" in refused.stderr
        assert "give earliest, latest, an offset, or a time" in refused.stderr
    assert [row["reset_to"] for row in run_json(*reset, "latest")] == [10, 10, 10, 10]
    assert [row["reset_to"] for row in run_json(*reset, "2001-01-01")] == [0, 0, 0, 0]
    assert [row["reset_to"] for row in run_json(*reset, "2101-01-01")] == [10, 10, 10, 10]
    misspelt = ("offsets", store, "--group", "Gg", "--topic", "orders", "--reset-to", "earliest")
    assert "the group Gg has no offsets yet; did you mean G?" in run(*misspelt).stderr
    other = run(*misspelt[:3], "billing", *misspelt[4:], "--yes")
    assert (other.exit_code, "the group billing has no offsets yet; there are: G" in other.stderr) == (0, True), other
    assert offsets.query_offsets("Gg", "orders") == {}
    assert offsets.query_offsets("billing", "orders") == {0: 0, 1: 0, 2: 0, 3: 0}
    assert run(*misspelt, "--yes").exit_code == 0
    with Consumer(store, "G", "orders"):
        refused = run(*reset, "earliest", "--yes")
        assert refused.exit_code == 2
        assert "stop them first" in refused.stderr
    assert offsets.query_offsets("G", "orders") == {0: 4, 1: 4, 2: 4, 3: 4}


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (("--reset-to", "earliest"), "--group"),
        (("--yes",), "--reset-to"),
        (("--group", "G", "--topic", "orders", "--reset-to", "soon"), "is no time"),
        (("--group", "G"), "nothing is known"),
    ],
)
def test_offsets_says_what_is_wrong(store: Path, flags: tuple[str, ...], told: str) -> None:
    result = run("offsets", store, *flags)
    assert result.exit_code == 2
    assert told in result.stderr


def test_cat_waits_for_more(tmp_path: Path) -> None:
    """Over the ends of files, and with a filter."""
    with store_with(tmp_path, 10) as store:
        thread = threading.Thread(target=put_slowly, args=(store,))
        thread.start()
        lines = run_json("cat", tmp_path, "--follow", "--limit", 35, "--queue", 1, *SMALL, *INDEX)
        thread.join()
        assert [line["queue_offset"] for line in lines] == list(range(35))
        assert lines[-1]["physical_offset"] > 3 * 4096


def put_slowly(store: MessageStore) -> None:
    for number in range(10, 150, 7):
        put_numbers(store, range(number, number + 7))
        store.dispatch()
        time.sleep(0.01)


def test_consume_waits_for_more(tmp_path: Path) -> None:
    with store_with(tmp_path, 10) as store:
        store.dispatch()
        thread = threading.Thread(target=put_slowly, args=(store,))
        thread.start()
        lines = run_json("consume", tmp_path, "--follow", "--limit", 150, "--topic", "orders", "--group", "G", *SMALL)
        thread.join()
        assert len({line["unique_key"] for line in lines}) == 150


def test_a_group_whose_name_is_no_utf8(store: Path) -> None:
    """A byte of a command line that is no UTF-8 comes as a surrogate."""
    [*rows] = run_json("offsets", store, "--group", "\udcff", "--topic", "orders", *SMALL, *INDEX)
    assert [row["offset"] for row in rows] == [None] * 4


def test_messages_whose_file_is_removed_before_they_are_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bodies = [b"body %d" % number for number in range(30)]
    root = build(
        tmp_path / "store",
        [message(number, body=zlib.compress(body), sys_flag=SYS_FLAG_COMPRESSED) for number, body in enumerate(bodies)],
    )
    poll = Consumer.poll

    def poll_beside_a_broker(consumer: Consumer, *arguments: float, **more: float) -> list[StoredMessage]:
        found = poll(consumer, *arguments, **more)  # type: ignore[arg-type]
        for path in sorted((root / "commitlog").iterdir())[:-1]:
            path.unlink()
        return found

    monkeypatch.setattr(Consumer, "poll", poll_beside_a_broker)
    flags = ("--topic", "TopicA", "--group", "g", "--mapped-file-size-commit-log", FILE_SIZE)
    done = run("consume", root, *flags, "--format", "%s\n")
    assert (done.exit_code, done.stdout.encode().splitlines()) == (0, bodies), done


def test_offsets_of_what_is_not_there(store: Path) -> None:
    """A group has consumed more than a queue has, and a queue that has no ConsumeQueue."""
    manager = ConsumerOffsetManager(str(store))
    manager.commit_offsets("G", {(b"orders", 0): 12, (b"orders", 1): 3})
    shutil.rmtree(store / "consumequeue" / "orders" / "1")
    rows = {row["queue_id"]: row["lag"] for row in run_json("offsets", store, "--group", "G")}
    assert (rows[0], rows[1]) == (0, None)
    told = run("offsets", store, "--group", "G")
    assert "1 offset lies behind the end of a queue, the first of the group G at 12 of orders queue 0" in told.stderr
    assert "which ends at 10: a recovery has cut the log, or the log's last file may be cut" in told.stderr
    assert [line.split()[-1] for line in told.stdout.splitlines()[1:3]] == ["0", "-"]


def test_a_message_that_comes_again_is_named_by_its_own_queue(store: Path) -> None:
    """A client shows it with its first topic, whose queue has another message at its offset."""
    run("consume", store, "--topic", "orders", "--group", "G")
    with MessageStore.open(store) as writer:
        properties = {"RETRY_TOPIC": "orders"}
        writer.put_message(Message("%RETRY%G", b"again", properties=properties, queue_id=0, reconsume_times=1))
    waits = [row for row in run_json("offsets", store, "--group", "G") if row["topic"] == "%RETRY%G"]
    assert [(row["offset"], row["lag"]) for row in waits] == [(None, 1)]
    [line] = run_json("consume", store, "--topic", "orders", "--group", "G")
    assert (line["topic"], line["queue_id"], line["queue_offset"]) == ("%RETRY%G", 0, 0)
    [found] = run_json("get", store, "--topic", "%RETRY%G", "--queue", 0, "--offset", 0)
    assert found["physical_offset"] == line["physical_offset"]
    with MessageStore.open(store) as writer:
        writer.put_message(Message("%DLQ%G", b"dead", properties=properties, queue_id=0, reconsume_times=17))
    [line] = run_json("consume", store, "--topic", "%DLQ%G", "--group", "cleaner")
    assert (line["topic"], line["queue_offset"]) == ("%DLQ%G", 0)


def test_a_byte_given_as_queue_offset_is_told(store: Path) -> None:
    line = run_json("cat", store, "--limit", 30)[-1]
    told = run("cat", store, "--offset", line["physical_offset"])
    assert (told.exit_code, told.stdout) == (0, "")
    assert "is a queue offset" in told.stderr
    assert "--physical-offset" in told.stderr
    assert "is a queue offset" not in run("cat", store, "--offset", 9).stderr
