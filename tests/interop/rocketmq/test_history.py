"""Stores with random histories, played by the real engine: crashes, retention, deleted topics, clocks that are set, an
index that is switched on and off, upgrades. Verify finds nothing, each answer is right, and what is called complete is
complete."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from logdex.rocketmq.message.stored_message import StoredMessage
from logdex.rocketmq.rebuild import rebuild
from logdex.rocketmq.settings.dialect import Dialect
from logdex.rocketmq.settings.store_config import StoreConfig
from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot
from logdex.rocketmq.verify import verify
from tests.interop.rocketmq.engines import compiled, java_command

pytestmark = [pytest.mark.needs_java, pytest.mark.slow, pytest.mark.timeout(3000)]

CONFIG = StoreConfig(
    mapped_file_size_commit_log=16384, mapped_file_size_consume_queue=400, max_hash_slot_num=100, max_index_num=300
)
GEOMETRY = ("--commitlog", "16384", "--cq", "20", "--slots", "100", "--max-index", "300")
TOPICS, TAGS, KEYS = ("T", "U"), ("Aa", "BB", "red"), ("hot", "Aa", "BB", "AaAa", "BBBB", "x")
SEEDS_PER_RUN = 20
ROLLBACK = 12


def stage(chance: Random, number: int) -> tuple[list[str], int]:
    """The lines of one run of the engine that begins with message `number`, and the number after its last."""
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
    """What each of the versions does in turn with the store of a seed. It ends cleanly; what was left by a crash
    before that is kept."""
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
            if not of_it:
                continue  # the store may not know the topic
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
VERSIONS = ["5.5.0", "4.9.7"]


@pytest.mark.parametrize("version", VERSIONS)
def test_topics_that_are_created_again_before_a_crash(version: str, peers_dir: Path, tmp_path: Path) -> None:
    todo = {f"{at}": [f"open 1 0;{text};close".split(";")] for at, text in enumerate(CREATED_AGAIN.values())}
    for root in played(tmp_path, peers_dir, todo, (version,)):
        check(root, replace(CONFIG, dialect=Dialect.of(version)), puts_of(tmp_path, root.name))
