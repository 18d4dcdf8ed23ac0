"""Readers beside the real engine for a long time: rolls, removal of old files, topics that are
deleted and created again, transactions, kills and an upgrade. There is no false finding, no crash
and no wrong row, and a scan has all that the engine had acknowledged before the scan began."""

from __future__ import annotations

import itertools
import json
import subprocess
import threading
import time
from base64 import b64decode
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import logdex as api
from logdex.cli.rows.printer import END_OF
from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot
from tests.interop import soak
from tests.interop.rocketmq.engines import compiled, java_command

pytestmark = [
    pytest.mark.needs_java,
    pytest.mark.timeout(7200),
    pytest.mark.slow,
    # Behind a kill the log is torn until the next start.
    pytest.mark.filterwarnings("ignore::logdex.errors.IncompleteReadWarning"),
]

OLD = (("4.9.7", "kill"), ("4.9.7", "clean"))
NEW = (("5.5.0", "kill"), ("5.5.0", "kill"), ("5.5.0", "clean"))
HISTORIES = {"4.9.7": OLD, "5.5.0": NEW, "upgrade": OLD + NEW}
"""The engine's version, and how its run ends. Each history takes all of the seconds. Topics are
deleted in the runs that end cleanly: after a kill, the engine itself dispatches messages of deleted
topics again, and puts new messages of a topic that was created again behind them."""
GEOMETRY = ("--commitlog", "2000000", "--cq", "3000", "--slots", "1000", "--max-index", "8000")
FLAGS: tuple[object, ...] = ("--mapped-file-size-commit-log", 2_000_000, "--mapped-file-size-consume-queue", 60_000)
FLAGS += ("--max-hash-slot-num", 1000, "--max-index-num", 8000)


NO_OTHER = 1 << 62
"""Further than any number: no other message has the key."""


class Engine:
    """The real engine in a process of its own. `acknowledged` is the number of the last message
    that it acknowledged, `committed` holds the numbers of the half messages that it has committed,
    `lives` the number with which the newest life of a topic began, `starts` the number that each of
    its runs began with: what a killed run put behind `acknowledged` may be there too, and the next
    run puts the same numbers again."""

    def __init__(self, peers: Path, work: Path) -> None:
        self.acknowledged = -1
        self.committed: list[int] = []
        self.lives: dict[str, int] = {}
        self.starts: set[int] = set()
        self._peers = peers
        self._class_paths: dict[str, str] = {}
        self._work = work

    def compile(self, version: str) -> None:
        """Compiles SoakStore beside the peers' own classes of `version`."""
        self._class_paths[version] = compiled("SoakStore", version, self._peers, self._work / "classes")

    @contextmanager
    def running(self, store: Path, version: str, end: str, *options: str) -> Iterator[None]:
        command = [*java_command(self._class_paths[version], self._work), "logdex.SoakStore", "--dir", str(store)]
        command += ["--number", str(self.acknowledged + 1), *GEOMETRY, *options]
        command += ["--gone", "1"] if end == "clean" else []
        self.starts.add(self.acknowledged + 1)
        errors = self._work / "engine.stderr"
        with (
            errors.open("ab") as sink,
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=sink) as process,
        ):
            listener = threading.Thread(target=self._listen, args=(process,))
            listener.start()
            yield
            assert process.poll() is None, errors.read_text()[-3000:]
            assert process.stdin is not None
            if end == "kill":
                process.kill()
            else:
                process.stdin.close()
            process.wait(300)
            listener.join()

    def wait_for(self, number: int) -> None:
        """Until a message with that number is acknowledged."""
        for _ in range(600):
            if self.acknowledged >= number:
                return
            time.sleep(0.1)
        raise AssertionError("the engine does not write")

    def _listen(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            what, *words = line.decode().split() if line.endswith(b"\n") else [""]
            if what == "acked":
                self.acknowledged = int(words[0])
            elif what == "committed":
                self.committed.append(int(words[0]))
            elif what == "life":
                self.lives[words[0]] = int(words[1])


def check_rows(store: Path, engine: Engine, needed: int) -> int:
    """A scan of everything: numbers without a gap, bodies and keys right, all up to the message
    with the number `needed`, what was committed and the delayed messages included.
    Returns how many messages there are."""
    committed = {number for number in engine.committed if number <= needed}
    with api.open(store) as snapshot:
        assert isinstance(snapshot, StoreSnapshot)
        scan = snapshot.scan()
        columns = scan.to_arrow().read_all()
    rows = list(zip(columns.column("topic").to_pylist(), columns.column("body").to_pylist(), strict=True))
    numbers = [number for topic, body in rows if (number := check_row(topic, body)) is not None]
    gaps = [pair for pair in itertools.pairwise(numbers) if pair[1] != pair[0] + 1 and pair[1] not in engine.starts]
    assert len(gaps) <= len(scan.trimmed), f"gaps at {gaps[:5]}"  # files that went before the scan came to them
    is_there = needed < 0 or max(numbers[-1000:], default=-1) >= needed
    assert is_there or scan.trimmed, f"ends at {numbers[-1:]}, acknowledged is {needed}"
    delayed = {number for number in range(needed + 1) if number % 11 == 0}
    for kind, topic, wanted in (("half", "Plain", committed), ("late", "SCHEDULE_TOPIC_XXXX", delayed)):
        found = {check_body(body)[1] for name, body in rows if name == topic and body.startswith(kind.encode())}
        lost = [number for number in sorted(wanted - found) if numbers and number >= numbers[0]]
        lost = [number for number in lost if not any(before <= number < after for before, after in gaps)]
        assert not lost or (scan.trimmed and lost[0] >= numbers[-1]), f"{kind} messages {lost[:5]} are missing"
    return len(numbers)


def oldest_number(store: Path) -> int | None:
    """The number of the oldest message that is left."""
    with api.open(store) as snapshot:
        assert isinstance(snapshot, StoreSnapshot)
        numbers = (check_row(message.topic.decode(), message.body) for message in snapshot.scan(limit=50))
        return next((number for number in numbers if number is not None), None)


def check_row(topic: str, body: bytes) -> int | None:
    """The number of a plain message; None for one of a transaction and for a delayed one, of which
    no topic has others than it should."""
    if topic == "RMQ_SYS_TRANS_OP_HALF_TOPIC":
        assert body.endswith(b",")
        assert body[:-1].isdigit()
        return None
    kind, number = check_body(body)
    if kind == "half":
        assert topic == "RMQ_SYS_TRANS_HALF_TOPIC" or (topic == "Plain" and number % 14 == 7), (topic, body)
    elif kind == "gone":
        assert topic == f"Gone-{number // 3000 % 3}", (topic, body)
    elif kind == "late":
        assert topic in ("SCHEDULE_TOPIC_XXXX", "Plain"), topic  # 4.9 delivers it itself
    else:
        assert topic == ("Other" if number % 5 == 0 else "Plain"), (topic, body)
        return number
    return None


def check_body(body: bytes) -> tuple[str, int]:
    """What a body that SoakStore wrote is of, empty for a plain message, and its number."""
    *kinds, number, filler = body.decode().split(" ")
    assert filler == chr(ord("a") + int(number) % 26) * len(filler)
    return "".join(kinds), int(number)


def check_message(message: dict[str, Any]) -> tuple[str, int]:
    """A message that a command printed is what SoakStore puts: topic, queue, body, tag and keys.
    Returns what kind of message it is, empty for a plain one, and its number."""
    topic, body = message["topic"], b64decode(message["body"])
    check_row(topic, body)
    kind, number = check_body(body)
    queues = {"half": number % 4, "gone": number // 3 % 2, "late": 0, "": number % 4}
    assert message["queue_id"] == queues[kind], message
    keys = {"": [f"k{number % 1000}", f"n{number}"], "gone": [f"g{number}"]}
    assert message["keys"] == keys.get(kind, []), message
    assert message["tags"] == "Tag" + "ABC"[number % 3], message
    assert message["unique_key"] == f"U{number:031d}", message
    return kind, number


def check_lines(printed: str, topic: str) -> tuple[list[tuple[str, int]], dict[str, Any]]:
    """The messages that a command printed as JSON, all of `topic` and none twice, and the object
    about the end of the answer."""
    *rows, end = map(json.loads, printed.splitlines())
    assert END_OF in end, f"the last line is {end}"
    for row in rows:
        assert row["topic"] == topic, f"not of {topic}: {row}"
    assert len({row["physical_offset"] for row in rows}) == len(rows), f"{topic}: a message twice"
    return [check_message(row) for row in rows], end


def check_cat(store: Path, engine: Engine, topic: str) -> None:
    """All messages of a topic from the oldest file on, in order, up to what was acknowledged
    before, and the half messages that were committed before."""
    needed = engine.acknowledged
    committed = {number for number in engine.committed if number <= needed} if topic == "Plain" else set()
    printed = soak.logdex("cat", store, "--topic", topic, "--json", *FLAGS)
    messages, end = check_lines(printed, topic)
    numbers = [number for kind, number in messages if not kind]
    begins = {following(start - 1, topic) for start in engine.starts}
    gaps = [
        pair for pair in itertools.pairwise(numbers) if pair[1] != following(pair[0], topic) and pair[1] not in begins
    ]
    assert len(gaps) <= len(end["deleted"]), f"{topic}: gaps at {gaps[:5]}"
    newest = max(numbers[-1000:], default=-1)
    assert following(newest, topic) > needed or end["deleted"], f"{topic} ends at {newest}, acknowledged is {needed}"
    lost = committed - {number for kind, number in messages if kind == "half"}
    lost = {number for number in lost if numbers and number > numbers[0]}
    assert not lost or end["deleted"], f"{topic}: half messages {sorted(lost)[:5]} are missing"


def following(number: int, topic: str) -> int:
    """The number of the next plain message of a topic."""
    return next(each for each in itertools.count(number + 1) if (each % 5 == 0) == (topic == "Other"))


def check_query(store: Path, engine: Engine, word: str, key: int, step: int, first: int) -> None:
    """A query by the key `word` and number, which every message of the topic Other has whose number
    is `first` or a multiple of `step` more: those that were acknowledged before are returned,
    unless they are gone by now, and no others."""
    needed = engine.acknowledged
    asked = ("query", store, "--topic", "Other", "--key", f"{word}{key}", "--scan-missing", "--json", *FLAGS)
    messages, _ = check_lines(soak.logdex(*asked, allowed=(0, 1)), "Other")
    numbers = [number for _, number in messages]
    assert all((number - first) % step == 0 for number in numbers), f"{word}{key} returns {numbers}"
    oldest = oldest_number(store)
    wanted = range(first, needed + 1, step)
    lost = [number for number in wanted if oldest is not None and number > oldest and number not in numbers]
    assert not lost, f"{word}{key}: {lost[:5]} are not found, the log begins with {oldest}"


def read_newest(store: Path, queue: int) -> None:
    """Reads the newest message of a queue, which is there unless the engine has removed it
    meanwhile. An engine that starts after a kill cuts its queues and fills them again."""
    offset = offsets_of(store, queue)[1] - 1
    asked = ("get", store, "--topic", "Plain", "--queue", queue, "--offset", offset, "--json", *FLAGS)
    first = 0
    for _ in range(20):
        got = soak.logdex(*asked, allowed=(0, 2)).splitlines()
        if len(got) > 1:  # a message, and the end of the answer
            message = json.loads(got[0])
            assert [message[name] for name in ("topic", "queue_id")] == ["Plain", queue]
            check_message(message)
            at = message["queue_offset"]  # a read goes on behind what the engine has removed from the log
            assert at == offset or offset < at <= offsets_of(store, queue)[0], f"{at} is read at {offset}"
            return
        first = offsets_of(store, queue)[0]
        if first > offset:
            return
        time.sleep(1)
    raise AssertionError(f"queue {queue}, which begins with {first}, has no offset {offset}")


def read_newest_life(store: Path, engine: Engine) -> None:
    """Reads the first message of topics that are deleted and created again: it is of the newest
    life, unless it is gone meanwhile."""
    for topic, first in dict(engine.lives).items():
        for queue in (0, 1):
            asked = ("get", store, "--topic", topic, "--queue", queue, "--offset", 0, "--json", *FLAGS)
            if printed := soak.logdex(*asked, allowed=(0, 2)):
                for kind, number in check_lines(printed, topic)[0]:
                    assert kind == "gone"
                    assert number >= first, f"{topic} gives {number}, its newest life began with {first}"
        asked = ("query", store, "--topic", topic, "--key", f"g{first}", "--scan-missing", "--json", *FLAGS)
        if printed := soak.logdex(*asked, allowed=(0, 1, 2)):  # none where the topic is deleted just now
            found = set(check_lines(printed, topic)[0])
            assert found <= {("gone", first)}, f"g{first} returns {found}"
            oldest = oldest_number(store)
            assert found or oldest is None or oldest > first, f"g{first} is not found, the log begins with {oldest}"


def offsets_of(store: Path, queue: int) -> tuple[int, int]:
    """The first available offset of a queue, and the end."""
    for line in map(json.loads, soak.logdex("info", store, "--json", *FLAGS).splitlines()):
        if (line.get("topic"), line.get("queue_id")) == ("Plain", queue):
            return line["first_available_offset"], line["max_offset"]
    return 0, 0


def looks(store: Path, engine: Engine, scratch: Path) -> dict[str, Callable[[], None]]:
    """What runs beside the engine."""
    turn = iter(range(10**9))

    def scan() -> None:
        check_rows(store, engine, engine.acknowledged)

    def query() -> None:
        newest = engine.acknowledged // 5 * 5
        if newest >= 5:
            check_query(store, engine, "n", newest, NO_OTHER, newest)
            check_query(store, engine, "k", newest % 1000, 1000, newest % 1000)

    def commands() -> None:
        number = next(turn)
        read_newest(store, number % 4)
        read_newest_life(store, engine)
        check_cat(store, engine, ("Other", "Plain")[number % 2])

    def verify() -> None:
        soak.logdex("verify", store, "--json", *FLAGS)

    def rebuild() -> None:
        soak.rebuild_elsewhere(store, scratch / "rebuilt", *FLAGS)

    def recover() -> None:
        needed = engine.acknowledged
        with soak.recovered(store, scratch / "recovered", *FLAGS) as output:
            check_rows(output, engine, needed)

    jobs = {"verify": verify, "rebuild": rebuild, "recover": recover}
    return {"scan": scan, "query": query, "commands": commands, **jobs}


@pytest.mark.parametrize("history", HISTORIES.values(), ids=HISTORIES)
def test_soak(history: Sequence[tuple[str, str]], peers_dir: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    engine = Engine(peers_dir, tmp_path)
    for version in dict(history):
        engine.compile(version)
    each_s = soak.SECONDS / len(history)
    with engine.running(store, *history[0]):
        engine.wait_for(2000)
    with soak.Beside(looks(store, engine, tmp_path)) as beside:
        for version, end in history:
            with engine.running(store, version, end):
                engine.wait_for(engine.acknowledged + 1)
                time.sleep(each_s)
    print(beside.rounds, engine.acknowledged, len(engine.committed), engine.lives)
    assert not beside.problems, "\n".join([f"{len(beside.problems)} problems", *beside.problems[:20]])
    assert min(beside.rounds.values()) > 0
    assert engine.acknowledged > 1000
    assert len(engine.committed) > 50
    assert engine.lives
    assert check_rows(store, engine, engine.acknowledged) > 0  # the engine may have removed all but the newest file
