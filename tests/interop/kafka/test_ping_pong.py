"""One log directory, a real broker and Logdex in turn: each appends behind the other, reads all,
and finds it right."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

import logdex
from logdex.kafka.files.metadata_files import PartitionMetadata
from logdex.kafka.files.reader_positions import read_position
from logdex.kafka.log.log import Log
from logdex.kafka.settings.log_config import LogConfig
from logdex.kafka.snapshot.partition_snapshot import PartitionSnapshot
from logdex.kafka.verify import verify
from tests.crash.kafka.runs import check_indexes
from tests.golden.archives import ROOT
from tests.interop.kafka.peer import VERSIONS, Line, Lines, needs_peers, run_broker, serving, topic_config
from tests.interop.kafka.writing import (
    CODECS,
    PRODUCERS,
    Writer,
    Written,
    assert_same,
    check_read_back,
    committed,
    uncommitted,
)

pytestmark = [pytest.mark.needs_java, needs_peers, pytest.mark.timeout(600)]

CONFIG = LogConfig(segment_bytes=25_000, index_interval_bytes=512, segment_index_bytes=1 << 20, retention_ms=-1)
HOUR_MS = 3_600_000
RECORDS_A_CODEC = 30
IDS = ("one", "two", "three")
ROUNDS = {"records": 8, "rounds": 2, "abortEvery": 3}


def broker_steps(seed: int, *, end: str, codecs: tuple[str, ...]) -> Line:
    """A real producer: plain and idempotent with each codec, then overlapping transactions; a crash
    leaves one open."""
    common = {"topic": "pp", "partition": 0, "flushEvery": 6, "headers": 3, "tombstones": 0.1, "value": [0, 120]}
    steps: list[Line] = []
    for place, codec in enumerate(codecs):
        made = {"do": "produce", "records": RECORDS_A_CODEC, "codec": codec, "idempotent": place % 2 == 0}
        steps.append({**common, **made})
    ids = {"do": "transactions", "ids": IDS, "codec": codecs[seed % len(codecs)], "leaveOpen": end == "halt"}
    return {"seed": seed, "end": end, "steps": [*steps, {**common, **ids, **ROUNDS}]}


class Game:
    """`written`: all that is in the log, as both sides must see it. `end`: the log end offset."""

    def __init__(self, home: Path, version: str, config: LogConfig = CONFIG) -> None:
        self.home = home
        self.config = config
        self.version = version
        self.written: list[Written] = []
        self.start = 0
        self.end = 0
        self.seed = 0
        self.topic_id: object = None

    @property
    def path(self) -> str:
        return str(self.home / "pp-0")

    def make(self) -> None:
        """The broker makes directory and topic, and is shut down."""
        topic = {"name": "pp", "partitions": 1, "config": topic_config(self.version, self.config)}
        run_broker(self.home, self.version, {"topics": [topic]})
        self.topic_id = PartitionMetadata.read(self.path + "/partition.metadata").topic_id

    # -- our turn ---------------------------------------------------------------------------------
    def our_turn(self, *, was_clean: bool, crash: bool = False, delete: bool = False) -> None:
        """We open it, find what is there, append, and close it, or die."""
        self.seed += 1
        if crash:
            self._append_and_die()
        else:
            with Log.open(self.path, self.config) as log:
                self.check(log, was_clean=was_clean)
                self.written += append(log, self.seed)
                if delete:
                    self.start = log.delete_records(log.segments[1].base_offset + 3)
                self.end = log.log_end_offset
        assert (self.home / ".kafka_cleanshutdown").exists() is (was_clean and not crash)
        self.verify()
        assert PartitionMetadata.read(self.path + "/partition.metadata").topic_id == self.topic_id

    def check(self, log: Log, *, was_clean: bool) -> None:
        report = log.load_report
        assert report.was_clean is was_clean
        assert report.cut_bytes == 0
        assert (report.recovered == []) is was_clean
        assert (log.log_start_offset, log.log_end_offset) == (self.start, self.end)
        check_read_back(log, self.written)
        for segment in log.segments:
            check_indexes(segment, self.config, exact=segment.base_offset in report.recovered)

    def verify(self) -> None:
        """Nothing is wrong in the whole directory, the broker's own topics included."""
        report = verify(str(self.home), self.config)
        assert report.findings == []
        assert report.messages > len(uncommitted(self.written)) // 2

    def _append_and_die(self) -> None:
        """In a process that ends without closing anything; what it appended is in the files
        nevertheless."""
        told = self.home.with_name("told.pickle")
        command = [sys.executable, "-c", "from tests.interop.kafka.test_ping_pong import die; die()"]
        arguments = [self.path, str(self.seed), str(told)]
        done = subprocess.run(
            [*command, *arguments], cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False
        )
        assert done.returncode == 9
        more, self.end = pickle.loads(told.read_bytes())
        self.written += more

    # -- the broker's turn ------------------------------------------------------------------------
    def broker_turn(self, *, end: str, codecs: tuple[str, ...] = CODECS) -> None:
        """The broker loads it, a producer appends, a consumer reads all of it: ours must be as we
        wrote it."""
        times = [each.timestamp_ms for each in self.written[:: len(self.written) // 12]]
        offsets = [each.offset for each in self.written if each.offset >= self.start][::60]
        with serving(self.home, self.version, broker_steps(self.seed, end=end, codecs=codecs)) as broker:
            lines = broker.consume("pp-0", times, offsets)
        self.verify()
        self.note(lines)
        produced = len(codecs) * RECORDS_A_CODEC + len(IDS) * int(ROUNDS["records"]) * int(ROUNDS["rounds"])
        assert (
            len([each for each in self.written if each.offset >= self.last_end and each.fate != "marker"]) == produced
        )
        readable = {each.offset for each in self.written if each.fate != "marker"}
        for line in lines["seek"]:
            assert line["offset"] == min(offset for offset in readable if offset >= line["query"])
        self.check_times(lines)

    def note(self, lines: Lines) -> None:
        """Compares what the consumer got with what was there, and takes up what is new."""
        upto = {line["isolation"]: line["end"] for line in lines["offsets"]}
        assert {line["begin"] for line in lines["offsets"]} == {self.start}
        got = {
            isolation: [Written.told(line) for line in lines["message"] if line["isolation"] == isolation]
            for isolation in upto
        }
        stable = upto["read_committed"]
        shown = {each.offset for each in got["read_committed"]}
        known = [each for each in self.written if each.offset >= self.start]
        assert_same(got["read_uncommitted"][: len(uncommitted(known))], uncommitted(known))
        decided = [settled(each, shown) if each.offset < stable else each for each in known]
        wanted = [each for each in committed(decided) if each.offset < stable]
        assert_same([each for each in got["read_committed"] if each.offset < self.end], wanted)
        new = [each for each in got["read_uncommitted"] if each.offset >= self.end]
        fates = [None if each.offset in shown else "aborted" if each.offset < stable else "open" for each in new]
        below = [each for each in self.written if each.offset < self.start]
        self.written = below + decided + [replace(each, fate=fate) for each, fate in zip(new, fates, strict=True)]
        self.last_end, self.end = self.end, upto["read_uncommitted"]

    def check_times(self, lines: Lines) -> None:
        """By time the broker has the answers that we have, from the same files a little later."""
        assert lines["offsetForTime"]
        with logdex.open(self.path) as snapshot:
            assert isinstance(snapshot, PartitionSnapshot)
            for line in lines["offsetForTime"]:
                found = snapshot.offset_for_timestamp(line["query"])
                expected = (found.offset, found.timestamp_ms) if found else (None, None)
                assert (line.get("offset"), line.get("timestamp")) == expected


def settled(each: Written, shown: set[int]) -> Written:
    """A record of a transaction that was open, now that it has ended."""
    return replace(each, fate=None if each.offset in shown else "aborted") if each.fate == "open" else each


def append(log: Log, seed: int) -> list[Written]:
    writer = Writer(log, seed, start_ms=int(time.time() * 1000) - HOUR_MS, first_producer=PRODUCERS + seed * 1000)
    writer.everything()
    return writer.written


def die() -> None:
    """Appends and ends the process, as a crash does."""
    path, seed, told = sys.argv[1:]
    log = Log.open(path, CONFIG)
    written = append(log, int(seed))
    Path(told).write_bytes(pickle.dumps((written, log.log_end_offset)))
    os._exit(9)


@pytest.mark.slow
def test_a_round(tmp_path: Path) -> None:
    """The broker takes over what we closed and crashes; we take over what is left. The broker
    leaves the position of our reader alone, and does not see it."""
    game = Game(tmp_path / "home", VERSIONS[0])
    game.make()
    game.our_turn(was_clean=True)
    with Log.open(game.path, CONFIG) as log, log.reader("billing") as reader:
        reader.poll(7)
        reader.commit()
        position = reader.position
    game.broker_turn(end="halt", codecs=("lz4", "none", "zstd"))
    assert read_position(game.path, "billing") == position > 0
    with Log.open(game.path, CONFIG) as log:
        game.check(log, was_clean=False)
        with log.reader("billing") as reader:
            assert reader.poll(1)[0].offset >= position


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
def test_both_stamp_records_by_their_own_clock(version: str, tmp_path: Path) -> None:
    """A topic of LogAppendTime, read by time too."""
    game = Game(tmp_path / "home", version, replace(CONFIG, message_timestamp_type="LogAppendTime"))
    game.make()
    game.our_turn(was_clean=True)
    game.broker_turn(end="clean")
    game.our_turn(was_clean=True)
    game.broker_turn(end="clean", codecs=("snappy",))
    assert {each.timestamp_type for each in uncommitted(game.written)} == {"LogAppendTime"}


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
def test_three_rounds(version: str, tmp_path: Path) -> None:
    """Clean on both sides; then the broker crashes; then we do."""
    game = Game(tmp_path / "home", version)
    game.make()
    game.our_turn(was_clean=True)
    game.broker_turn(end="clean")
    game.our_turn(was_clean=True, delete=True)
    game.broker_turn(end="halt")
    game.our_turn(was_clean=False)
    game.broker_turn(end="halt")
    game.our_turn(was_clean=False, crash=True)
    game.broker_turn(end="clean")
    with Log.open(game.path, CONFIG) as log:
        game.check(log, was_clean=True)
