"""Stores with random histories, played by the real engine: crashes, retention, deleted topics,
clocks that are set, an index that is switched on and off, upgrades. Verify finds nothing, each
answer is right, and what is called complete is complete."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from logdex.layout.rocketmq import MESSAGE_HEAD
from logdex.rocketmq.message.stored_message import StoredMessage
from logdex.rocketmq.rebuild import rebuild
from logdex.rocketmq.recover import recover
from logdex.rocketmq.settings.dialect import Dialect
from logdex.rocketmq.settings.store_config import StoreConfig
from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot
from logdex.rocketmq.verify import verify
from tests.interop.rocketmq.engines import VERSIONS, compiled, java_command

pytestmark = [pytest.mark.needs_java, pytest.mark.slow, pytest.mark.timeout(3000)]

CONFIG = StoreConfig(
    mapped_file_size_commit_log=16384, mapped_file_size_consume_queue=400, max_hash_slot_num=100, max_index_num=300
)
GEOMETRY = ("--commitlog", "16384", "--cq", "20", "--slots", "100", "--max-index", "300")
TOPICS, TAGS, KEYS = ("T", "U"), ("Aa", "BB", "red"), ("hot", "Aa", "BB", "AaAa", "BBBB", "x")
SEEDS_PER_RUN = 20
ROLLBACK = 12


def stage(chance: Random, number: int) -> tuple[list[str], int]:
    """The lines of one run of the engine that begins with message `number`, and the number after
    its last."""
    lines = [f"open {int(chance.random() < 0.85)} {int(chance.random() < 0.1)}"]
    for _ in range(chance.randrange(1, 4)):
        count = chance.choice((1, 5, 30, 60, 120))
        lines.append(f"put {count} {number} {chance.randrange(10**6)}")
        number += count
        if chance.random() < 0.15:
            lines.append("retain")
        if chance.random() < 0.1:
            lines.append(f"clock {chance.choice((-5_000, -100_000, 3_600_000))}")
    return lines, number


def scripts(seed: int, versions: tuple[str, ...]) -> list[list[str]]:
    """What each of the versions does in turn with the store of a seed. It ends cleanly; what was
    left by a crash before that is kept."""
    chance, number = Random(seed), 0
    found: list[list[str]] = []
    for place in range(len(versions)):
        lines = ["clock 86400000"] if place else []
        for _ in range(chance.randrange(1, 4)):
            more, number = stage(chance, number)
            lines += more
            if chance.random() < 0.15:
                lines.append(f"delete {chance.choice(TOPICS)}")
            lines.append(f"crash {chance.choice((0, 0, 600, 1500))}" if chance.random() < 0.5 else "close")
        if lines[-1].startswith("crash"):
            lines += [f"keep {seed}.crashed"] if place + 1 == len(versions) else []
            lines += ["open 1 0", "close"]
        found.append(lines)
    return found


def played(work: Path, peers: Path, todo: dict[str, list[list[str]]], versions: tuple[str, ...]) -> list[Path]:
    """The stores of which each version in turn plays the lines in `todo`, by name."""
    for place, version in enumerate(versions):
        for name, lines in todo.items():
            (work / f"{name}.script").write_text("\n".join(lines[place]) + "\n")
        classes = compiled("HistoryStore", version, peers, work / "classes")
        command = [*java_command(classes, work), "logdex.HistoryStore", "--scripts", str(work), *GEOMETRY]
        ended = subprocess.run(command, capture_output=True, timeout=1200, check=False)
        assert ended.returncode == 0, ended.stderr.decode()[-3000:]
    return sorted(path for path in work.iterdir() if path.is_dir() and path.name.split(".")[0].isdigit())


def has_key(message: StoredMessage, key: str, index_type: str | None) -> bool:
    if message.sys_flag & ROLLBACK == ROLLBACK:
        return False
    return message.tags == key.encode() if index_type else key.encode() in message.keys


def check_queries(store: StoreSnapshot, log: list[tuple[int, StoredMessage]], *, tags: bool) -> None:
    asked: list[tuple[str, str | None]] = [(key, None) for key in KEYS]
    asked += [(tag, "T") for tag in TAGS if tags]
    asked += [(message.keys[-1].decode(), None) for _, message in log[::17] if message.keys]
    for topic in TOPICS:
        for key, index_type in asked:
            of_it = [(at, each) for at, each in reversed(log) if each.topic == topic.encode()]
            wanted = [at for at, each in of_it if has_key(each, key, index_type)]
            for scan_missing in (False, True):
                answer = store.query_message(topic, key, scan_missing=scan_missing, index_type=index_type)
                about = (topic, key, index_type, scan_missing, answer.missing)
                lost = set(wanted) - set(answer.phy_offsets)
                assert [at for at in wanted if at not in lost] == list(answer.phy_offsets), about
                assert not (answer.complete and lost), about
                assert not (scan_missing and lost), about
                assert answer.complete or not scan_missing, (about, answer.unreadable)
                assert all(any(low <= at < high for low, high in answer.missing) for at in lost), about


def check(root: Path, config: StoreConfig, put: dict[int, int]) -> None:
    """`put` is the number of the message at each physical offset."""
    assert verify(root, config).findings == []
    with StoreSnapshot(root, config=config) as store:
        log = [*store.scan().items()]
        low = log[0][0] if log else 1 << 63
        assert {at: int(each.body.split()[0]) for at, each in log} == {
            at: number for at, number in put.items() if at >= low
        }
        check_queries(store, log, tags=True)
    output = root.with_name(f"{root.name}.rebuilt")
    assert rebuild(str(root), str(output), config, sync=False).losses == []


def puts_of(work: Path, seed: str) -> dict[int, int]:
    lines = (line.split() for line in (work / f"{seed}.puts").read_text().splitlines())
    return {int(at): int(number) for number, at, _ in lines}


HISTORIES: list[tuple[int, tuple[str, ...]]] = [
    (first, versions)
    for first, versions in zip(
        range(0, 120, SEEDS_PER_RUN), [("5.5.0",), ("4.9.7",), ("4.9.7", "5.5.0")] * 2, strict=True
    )
]


@pytest.mark.parametrize(("first", "versions"), HISTORIES)
def test_random_histories(first: int, versions: tuple[str, ...], peers_dir: Path, tmp_path: Path) -> None:
    todo = {str(seed): scripts(seed, versions) for seed in range(first, first + SEEDS_PER_RUN)}
    config = replace(CONFIG, dialect=Dialect.of(versions[-1]))
    for root in played(tmp_path, peers_dir, todo, versions):
        check(root, config, puts_of(tmp_path, root.name.split(".")[0]))


CREATED_AGAIN = {
    "crash": "put 60 0 1;delete T;put 30 60 2;crash 0;open 1 0",
    "crash later": "put 60 0 1;delete T;put 30 60 2;crash 1500;open 1 0;put 30 90 3",
    "after a clean close": "put 100 0 1;close;open 1 0;put 30 100 2;delete T;put 60 130 3;crash 0;open 1 0",
    "a longer life": "put 30 0 1;delete T;put 100 30 2;crash 0;open 1 0;put 60 130 4",
    "one message": "put 60 0 1;delete T;put 1 60 2;crash 0;open 1 0;put 30 61 3",
    "two topics": "put 60 0 1;delete T;delete U;put 2 60 2;crash 0;open 1 0",
    "two topics, later": "put 60 0 1;delete T;delete U;put 4 60 2;crash 0;open 1 0;put 20 64 5",
}


@pytest.mark.parametrize("version", VERSIONS)
def test_topics_that_are_created_again_before_a_crash(version: str, peers_dir: Path, tmp_path: Path) -> None:
    todo = {f"{at}": [f"open 1 0;{text};close".split(";")] for at, text in enumerate(CREATED_AGAIN.values())}
    for root in played(tmp_path, peers_dir, todo, (version,)):
        check(root, replace(CONFIG, dialect=Dialect.of(version)), puts_of(tmp_path, root.name))


def served_on_start(work: Path, peers: Path, version: str, lines: str, days: int) -> set[int]:
    """The physical offsets of all messages that the engine's consumers get after a start that plays
    some lines."""
    script = [f"clock {days * 86_400_000}", "open 1 0", *lines.split(";"), "serve", "close"]
    played(work, peers, {"0": [[line for line in script if line]]}, (version,))
    return {int(line) for line in (work / "0.served").read_text().splitlines()}


def queued(root: Path, config: StoreConfig) -> dict[int, int]:
    """The numbers of the messages in the log that belong into a queue, by physical offset."""
    with StoreSnapshot(root, config=config) as store:
        return {at: int(each.body.split()[0]) for at, each in store.scan().items() if each.is_queued}


def left_out(root: Path, config: StoreConfig) -> set[int]:
    """The physical offsets of the messages that verify finds left out of their queues; nothing else
    is found."""
    found = set()
    for finding in verify(root, config).findings:
        assert (finding.check, "no consumer gets it" in finding.message) == ("message-queue-offset", True), finding
        found.add(int(Path(finding.path).name) + finding.position - MESSAGE_HEAD.offset_of("queue_offset"))
    return found


def lose_queues(root: Path) -> None:
    (root / "checkpoint").unlink(missing_ok=True)
    for name in ("consumequeue", "index"):
        shutil.rmtree(root / name)


@pytest.mark.parametrize("version", VERSIONS)
def test_what_the_engine_leaves_out_when_it_makes_queues_anew_is_found(
    version: str, peers_dir: Path, tmp_path: Path
) -> None:
    """The ConsumeQueues of a topic that was created again are lost. The engine makes them anew of
    the whole log: it puts the first message of the new life behind the earlier life, and leaves out
    the others up to there. The findings are just the messages that no consumer gets; a rebuild
    gives those of the new life back."""
    config, first = replace(CONFIG, dialect=Dialect.of(version)), "open 1 0;put 60 0 1;delete T;put 60 60 2;close"
    (root,) = played(tmp_path, peers_dir, {"0": [first.split(";")]}, (version,))
    lose_queues(root)
    served = served_on_start(tmp_path, peers_dir, version, "put 30 120 3", 1)
    assert left_out(root, config) == queued(root, config).keys() - served != set()
    rebuild(str(root), str(root), config, in_place=True, sync=False)
    assert verify(root, config).findings == []
    served = served_on_start(tmp_path, peers_dir, version, "", 2)
    assert {at for at, number in queued(root, config).items() if number >= 60} <= served


@pytest.mark.parametrize("version", VERSIONS)
def test_offsets_that_an_engine_gave_out_twice_are_found_where_consumers_lack_a_message(
    version: str, peers_dir: Path, tmp_path: Path
) -> None:
    """The last file of a queue is lost after a clean end. The engine goes on before it, and gives
    its queue offsets out again. When it makes the queue anew later, it leaves out what states an
    offset for the second time: the messages are in the log and no consumer gets them."""
    config = replace(CONFIG, dialect=Dialect.of(version))
    (root,) = played(tmp_path, peers_dir, {"0": [["open 1 0", "put 200 0 1", "close"]]}, (version,))
    *_, last = sorted((root / "consumequeue" / "T" / "0").iterdir())
    last.unlink()
    served_on_start(tmp_path, peers_dir, version, "put 30 200 2", 1)
    lose_queues(root)
    served = served_on_start(tmp_path, peers_dir, version, "", 2)
    assert left_out(root, config) == queued(root, config).keys() - served != set()


@pytest.mark.parametrize("version", VERSIONS)
def test_queues_that_an_engine_made_anew_over_a_gap_are_rebuilt(version: str, peers_dir: Path, tmp_path: Path) -> None:
    """A file of the log is lost, and with it the queue offsets of its messages. The engine puts the
    entries behind the gap one behind the other. Consumers get all messages, at other queue offsets
    than those state: no message is lost, and a rebuild, which the mend names, puts each at its
    own."""
    config = replace(CONFIG, dialect=Dialect.of(version))
    (root,) = played(tmp_path, peers_dir, {"0": [["open 1 0", "put 200 0 1", "close"]]}, (version,))
    (root / "commitlog" / f"{config.mapped_file_size_commit_log:020d}").unlink()
    recovered = tmp_path / "recovered"
    recover(root, recovered, config, sync=False)
    shutil.rmtree(root)
    recovered.rename(root)
    lose_queues(root)
    kept = {at for at, _ in puts_left(root, config)}
    assert kept <= served_on_start(tmp_path, peers_dir, version, "", 1)
    findings = verify(root, config).findings
    assert {finding.check for finding in findings} == {"message-queue-offset"}
    assert all("logdex rebuild" in finding.mend for finding in findings)
    rebuild(str(root), str(root), config, in_place=True, sync=False)
    assert verify(root, config).findings == []
    assert kept <= served_on_start(tmp_path, peers_dir, version, "", 2)


def puts_left(root: Path, config: StoreConfig) -> list[tuple[int, StoredMessage]]:
    """The messages of a recovered log that belong into a queue of theirs, without placeholders."""
    with StoreSnapshot(root, config=config) as store:
        return [(at, each) for at, each in store.scan().items() if each.is_queued and each.topic != b"LOGDEX_LOST"]
