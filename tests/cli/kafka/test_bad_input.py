"""Cut and flipped files of a Kafka log directory through the reading commands: an exit code, a
clear line, nothing written, no hang; records of good batches are never lost to damage elsewhere."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli import helpers
from tests.cli.harm import Run, check_run, flipped, harmed
from tests.examples import some
from tests.golden import kafka as golden_kafka

COMMANDS: dict[str, list[str]] = {
    "info": ["info", "LOGS"],
    "info --json": ["info", "LOGS/orders-0", "--json"],
    "cat": ["cat", "LOGS", "--json", "--control"],
    "cat committed": ["cat", "LOGS", "--json", "--isolation-level", "read_committed"],
    "cat from": ["cat", "LOGS", "--json", "--topic", "orders", "--from", "1700000001000"],
    "get": ["get", "LOGS", "--topic", "orders", "--partition", "0", "--offset", "100", "--count", "40", "--json"],
    "get by time": ["get", "LOGS/orders-0", "--time", "1700000002000", "--count", "5", "--json"],
    "query": ["query", "LOGS", "--topic", "orders", "--key", "key-104", "--json"],
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return golden_kafka.unpack("tiny-broker", tmp_path_factory.mktemp("harmed") / "logs")


def files(root: Path) -> list[Path]:
    return sorted(path for path in root.rglob("*") if path.is_file() and path.stat().st_size)


def run(root: Path, command: str) -> Run:
    ended = helpers.run(*(word.replace("LOGS", str(root)) for word in COMMANDS[command]))
    return Run(ended.exit_code, helpers.without_end(ended.stdout), ended.stderr, {})


def check(root: Path, command: str, harm: str) -> Run:
    name = f"{command} after {harm}"
    result = check_run(root, lambda: run(root, command), name)
    assert result.exit_code in (0, 1, 2), (name, result)
    assert result.exit_code == 0 or result.stderr.startswith("logdex: "), (name, result)
    return result


def flips(root: Path, count: int, seed: int) -> Iterator[tuple[Path, int, int]]:
    """`count` times (file, byte, mask), each file as often."""
    chance = random.Random(seed)
    for path in itertools.islice(itertools.cycle(files(root)), count):
        yield path, chance.randrange(path.stat().st_size), 1 << chance.randrange(8)


def test_flips(root: Path) -> None:
    turn = itertools.cycle(COMMANDS)
    for path, at, mask in some(list(flips(root, 240, seed=7)), 12):
        with harmed(path, flipped(path, at, mask)):
            check(root, next(turn), f"{path.relative_to(root)} byte {at} ^ {mask:#x}")


def test_cut_and_missing_files(root: Path) -> None:
    turn = itertools.cycle(COMMANDS)
    for number, path in enumerate(files(root)):
        data = path.read_bytes()
        sizes = sorted({0, 1, len(data) // 3, len(data) // 2, len(data) - 1})
        for size in some([*sizes, None], 9, first=number):
            with harmed(path, None if size is None else data[:size]):
                check(root, next(turn), f"{path.relative_to(root)} cut to {size}")


def test_cut_logs_through_every_command(root: Path) -> None:
    path = root / "orders-0" / f"{116:020d}.log"
    data = path.read_bytes()
    for size in (0, 1, 11, 17, 60, 61, 500, len(data) - 1):
        with harmed(path, data[:size]):
            for command in some(list(COMMANDS), 3, first=size):
                check(root, command, f"the last segment cut to {size}")


def test_records_of_good_batches_survive_a_flip(root: Path) -> None:
    """Wherever a bit of a .log is flipped, `cat` gives every record of the other batches."""
    whole = set(run(root, "cat").stdout.splitlines())
    lines = list(golden_kafka.records("tiny-broker"))
    chance = random.Random(11)
    for path in (path for path in files(root) if path.suffix == ".log" and path.parent.name == "orders-0"):
        batches = [
            line
            for line in lines
            if line["kind"] == "batch" and (line["partition"], line["segment"]) == ("orders-0", int(path.stem))
        ]
        for _ in range(12):
            at = chance.randrange(path.stat().st_size)
            hit = next(each for each in batches if each["position"] <= at < each["position"] + each["size"])
            with harmed(path, flipped(path, at, 1 << chance.randrange(8))):
                result = check(root, "cat", f"{path.name} byte {at}")
            spared = {
                line
                for line in whole
                if (row := json.loads(line))["topic"] != "orders"
                or row["partition"] != 0
                or not hit["baseOffset"] <= row["offset"] <= hit["lastOffset"]
            }
            missing = spared - set(result.stdout.splitlines())
            assert not missing, (path.name, at, hit, sorted(missing)[:2], result.stderr)
            harmed_by_crc = at >= hit["position"] + 17  # what is before is the broker's, and no checksum covers it
            assert result.exit_code == 1 or not harmed_by_crc
