"""Every cut of every file of very small Kafka log directories, and 2,500 flips of each kind of
file, or 10,000.

Each harm goes through the readers of that kind of file (`kafka_readers`). Each cut and every fourth
flip also goes through one of twelve ways to use the whole directory, taken in turn: ten commands,
`Log.open` on a copy, and `open_kafka(…).scan().to_arrow()`. What must hold, beyond
`kafka_harm.check`:

- All that is handed out was written, but for offsets and leader epochs, which no checksum covers.
- A harmed .log: `cat` and Arrow give every record of the other batches, in order, and tell of the
  batch that is passed over by its file and byte; `verify` exits 1; `recover` saves all that has a
  valid checksum; a `Log` gives a prefix.
- Anything else harmed: `cat`, Arrow, `rebuild`, `recover` and `Log` give what they gave.
"""

from __future__ import annotations

import itertools
import json
import random
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from logdex.errors import CorruptError, LogdexError
from logdex.kafka.files.file_names import LOG_START_CHECKPOINT
from tests.cli.harm import Run, flipped, harmed, tell
from tests.cli.kafka.harm import COMMANDS, Batch, KafkaStore, build, check, open_log, read_arrow
from tests.cli.kafka.readers import read_file
from tests.cli.kafka.tiny_logs import TINY_KAFKA
from tests.examples import every, some

KINDS = [".log", "legacy .log", ".index", ".timeindex", ".txnindex", ".snapshot", ".keyindex", "text"]
FLIPS, SEEDS = 250, 40
"""Flips of a kind per seed, over the files of both stores: 10,000 if all seeds are tried."""
FLIPS_A_WAY = 4
WAYS = [*COMMANDS, "open", "arrow"]
_UNGUARDED = ("offset", "leader_epoch")

pytestmark = [
    pytest.mark.usefixtures("bounded_memory"),
    pytest.mark.filterwarnings("ignore::logdex.errors.IncompleteReadWarning"),
]


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> dict[str, KafkaStore]:
    return {name: build(name, tmp_path_factory.mktemp("harm") / name) for name in TINY_KAFKA}


def kind_of(path: Path) -> str:
    if path.suffix == ".log" and path.parent.name == "old-0":
        return "legacy .log"
    return path.suffix if path.suffix in KINDS else "text"


def is_guarded(batch: Batch, byte: int) -> bool:
    """Whether a flip of a batch's byte cannot go unseen; see `kafka_harm`."""
    at = byte - batch.position
    return not (at < 8 or (batch.magic == 2 and 12 <= at < 16))


class Harm:
    """One harm: what the log's records are then."""

    def __init__(self, store: KafkaStore, path: Path, told: str, hit: list[Batch], *, guarded: bool) -> None:
        self.store, self.path, self.name, self.guarded = store, path, store.name(path), guarded
        self.told = f"{self.name} {told}"
        self.is_log = path.suffix == ".log"
        self.topic = store.topic_of(path)
        self.hit = hit
        """The batches that it takes away, or may change in what no checksum covers."""
        self.lost = {line for batch in hit for line in batch.lines}
        self.kept = [line for line in store.whole["cat", "events"].stdout.splitlines() if line not in self.lost]
        # A wrapper of old holds whole messages: behind its own harmed length, they are found, at
        # offsets of their own.
        self.is_old = any(batch.magic < 2 for batch in hit)
        self.maybe = {unguarded(line) for line in self.lost} if self.is_old or not guarded else set()

    def check_lines(self, lines: list[str], told: str) -> None:
        """All records that were spared, in order; of those that were hit at most other offsets."""
        rest = [line for line in lines if line not in set(self.kept)]
        assert [line for line in lines if line in set(self.kept)] == self.kept, told
        assert all(unguarded(line) in self.maybe for line in rest), told
        assert len(rest) in (0, len(self.lost)) or self.is_old, told

    def check_true(self, lines: list[str], told: str) -> None:
        """Nothing but what was written."""
        known = set(self.kept)
        assert all(line in known or unguarded(line) in self.maybe for line in lines), told

    def run(self, way: str) -> None:
        if way in COMMANDS:
            self.run_command(way)
        elif way == "open":
            self.run_open()
        else:
            self.run_arrow()

    def run_command(self, way: str) -> None:
        result = check(self.store, way, self.told, self.topic)
        told = tell(way, self.told, result)
        if way in ("cat committed", "get", "get by time", "query"):
            self.check_true(result.stdout.splitlines(), told)
        if self.is_log:
            self.check_log_harm(way, result, told)
        else:
            self.check_derived_harm(way, result, told)

    def check_log_harm(self, way: str, result: Run, told: str) -> None:
        if way == "cat":
            lines = result.stdout.splitlines()
            self.check_lines(lines, told)
            gone = [batch for batch in self.hit if not set(batch.lines) & set(lines)]
            if self.guarded and self.hit:
                assert result.exit_code == 1, told
                assert self.is_located(result.stderr), told
            assert result.exit_code == 1 or not gone or not self.guarded, told
        elif way in ("verify", "recover") and self.guarded and self.hit:
            assert result.exit_code == (1 if way == "verify" else 3), told
        elif way == "rebuild":
            whole = self.store.whole[way, self.topic].output
            other = {name for name in whole if not name.startswith(self.path.parent.name)}
            assert all(result.output[name] == whole[name] for name in other), told

    def is_located(self, stderr: str) -> bool:
        """Whether the batch that was hit, or one of its fields, is told of."""
        first, last = self.hit[0], self.hit[-1]
        told = re.findall(re.escape(str(self.path)) + r": byte (\d+)", stderr)
        return any(first.position <= int(byte) <= last.position + last.size for byte in told)

    def check_derived_harm(self, way: str, result: Run, told: str) -> None:
        whole = self.store.whole[way, self.topic]
        if way == "cat":
            assert result == whole, told
        elif way == "query":
            assert (result.exit_code, result.stdout) == (0, whole.stdout) or result.exit_code == 1, told
        elif way == "rebuild":
            assert (result.exit_code, result.output) == (whole.exit_code, whole.output), told
        elif way == "recover" and self.path.name != LOG_START_CHECKPOINT:
            # what says no more than itself is taken over or, where it cannot be read, left out
            expected, found = ({n: b for n, b in r.output.items() if n != self.name} for r in (whole, result))
            assert (result.exit_code, found) == (whole.exit_code, expected), told
        elif way == "verify" and kind_of(self.path) != "text":
            # an index that only lacks entries at its end was closed early: that is no finding
            is_short = self.path.suffix in (".index", ".timeindex") and "[index-differs]" in result.stdout
            is_spared = self.path.suffix in (".snapshot", ".keyindex") and not self.path.exists()  # derived when needed
            assert result.exit_code == 1 or (is_short and "cut" in self.told) or is_spared, told
        elif way == "cat committed" and self.path.name != LOG_START_CHECKPOINT:
            assert result.stdout == whole.stdout, told

    def run_open(self) -> None:
        lines, error = open_log(self.store, self.topic)
        told = f"Log.open after {self.told}: {error}\n" + "\n".join(lines)
        whole = [line for line in self.store.whole["cat", "events"].stdout.splitlines() if self.is_mine(line)]
        self.check_true(lines, told)
        if error is not None:
            assert str(self.store.work) in str(error), told
            assert self.is_log or isinstance(error, CorruptError), told
        if self.guarded and self.is_log:
            if not self.hit:  # cut between two batches: as compaction leaves it
                whole = [line for line in whole if line not in self.lost]
            prefix = whole[: next((k for k, line in enumerate(whole) if line in self.lost), len(whole))]
            is_told = error is not None and lines == whole[: len(lines)]  # all up to a batch without records, or a file
            assert is_told or lines in (whole[len(whole) - len(lines) :], prefix[len(prefix) - len(lines) :]), told
        elif not self.is_log and error is None and self.path.name != LOG_START_CHECKPOINT:
            assert lines == whole[len(whole) - len(lines) :] != [], told

    def is_mine(self, line: str) -> bool:
        return bool(json.loads(line)["topic"] == self.topic)

    def run_arrow(self) -> None:
        found = read_arrow(self.store)
        told = f"to_arrow after {self.told}: {found}"
        if isinstance(found, LogdexError):
            assert self.is_log, told
            assert str(self.store.root) in str(found), told
        else:
            self.check_lines(found, told)


def unguarded(line: str) -> str:
    """A record's line without what no checksum covers."""
    row = json.loads(line)
    for name in _UNGUARDED:
        del row[name]
    return json.dumps(row)


def flip_of(store: KafkaStore, path: Path, byte: int, mask: int) -> Harm:
    batch = store.batch_at(path, byte)
    guarded = batch is None or is_guarded(batch, byte)
    return Harm(store, path, f"byte {byte} ^ {mask:#x}", [] if batch is None else [batch], guarded=guarded)


def cut_of(store: KafkaStore, path: Path, size: int) -> Harm:
    hit = [batch for batch in store.batches if batch.path == path and batch.position + batch.size > size]
    cut = Harm(store, path, f"cut to {size} bytes", hit, guarded=True)
    left = path.read_bytes()[hit[0].position : size] if hit else b""
    if not any(left):  # nothing is wrong with what is left, or it looks like room behind the log
        cut.hit = []
    return cut


def flips(stores: dict[str, KafkaStore], kind: str, count: int, seed: int) -> Iterator[tuple[Harm, bytes]]:
    """`count` harms of files of one kind, each file as often for its size; bits and whole bytes."""
    chance = random.Random(f"{kind} {seed}")
    files = [(store, path) for store in stores.values() for path in store.files if kind_of(path) == kind]
    sizes = [path.stat().st_size for _, path in files]
    for store, path in chance.choices(files, sizes, k=count):
        byte, mask = chance.randrange(path.stat().st_size), chance.choice((0xFF, 0x80, 1 << chance.randrange(8)))
        yield flip_of(store, path, byte, mask), flipped(path, byte, mask)


def go(harm: Harm, data: bytes, ways: list[str]) -> None:
    with harmed(harm.path, data):
        read_file(harm.path, kind_of(harm.path))
        for way in ways:
            harm.run(way)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", every(4, range(SEEDS)))
@pytest.mark.parametrize("kind", KINDS)
def test_many_flips(kind: str, seed: int, stores: dict[str, KafkaStore]) -> None:
    turn = itertools.cycle(WAYS)
    for number, (harm, data) in enumerate(flips(stores, kind, FLIPS, seed)):
        go(harm, data, [] if number % FLIPS_A_WAY else [next(turn)])


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", KINDS)
def test_every_cut(kind: str, stores: dict[str, KafkaStore]) -> None:
    turn = itertools.cycle(WAYS)
    for store in stores.values():
        for path in (path for path in store.files if kind_of(path) == kind):
            data = path.read_bytes()
            for size in range(len(data)):
                go(cut_of(store, path, size), data[:size], [next(turn)])


@pytest.mark.parametrize("kind", KINDS)
def test_some_cuts_and_flips(kind: str, stores: dict[str, KafkaStore]) -> None:
    turn = itertools.cycle(WAYS)
    for harm, data in some(list(flips(stores, kind, 48, seed=100)), 12):
        go(harm, data, [next(turn)])
    for number, store in enumerate(stores.values()):
        for path in (path for path in store.files if kind_of(path) == kind):
            data = path.read_bytes()
            for size in some(sorted({0, 1, len(data) // 2, len(data) - 1}), 8, first=number):
                go(cut_of(store, path, size), data[:size], [next(turn)])
            removed = cut_of(store, path, 0)
            with harmed(path, None):
                removed.run(next(turn))
