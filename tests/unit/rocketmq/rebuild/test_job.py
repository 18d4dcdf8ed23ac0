"""The parallel rebuild without Spark: any parts, any order, repeated attempts; the local rebuild's
bytes and report."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from logdex.errors import LogdexError, NotAStoreError, UsageError
from logdex.io.env import Env
from logdex.jobs.tasks import LocalRunner, Runner
from logdex.layout.rocketmq import SYS_FLAG_ROLLBACK
from logdex.rocketmq.commit_log.commit_log import CommitLog
from logdex.rocketmq.index_file import writer
from logdex.rocketmq.message.stored_message import StoredMessage, encode_message
from logdex.rocketmq.rebuild import RebuildReport, rebuild, rebuild_on
from logdex.rocketmq.rebuild import parts as rebuild_parts
from logdex.rocketmq.settings.store_config import StoreConfig
from logdex.testing.store_builder import make_message, write_commit_log
from tests.conformance.rocketmq.test_rebuild import config_of
from tests.directories import contents
from tests.golden import rocketmq as golden

CONFIG = StoreConfig(
    mapped_file_size_commit_log=4096, mapped_file_size_consume_queue=200, max_hash_slot_num=7, max_index_num=8
)
PART_SIZES = [100, 700, 4096, 1 << 20]


class Serial:
    """Runs tasks here, in any order, each perhaps several times; one attempt's result counts, as on
    Spark."""

    def __init__(self, seed: int = 0, *, attempts: int = 1) -> None:
        self.tasks = 0
        self.cores = 3
        self.jobs: list[tuple[str, int]] = []
        self._random = random.Random(seed)
        self._attempts = attempts
        self._number = 0

    def run(self, name: str, function: Callable[..., Any], tasks: Sequence[Any]) -> list[Any]:
        self.tasks += len(tasks)
        self.jobs.append((name, len(tasks)))
        results: dict[int, Any] = {}
        turns = [place for place in range(len(tasks)) for _ in range(self._attempts)]
        self._random.shuffle(turns)
        for place in turns:
            self._number += 1
            done = function(tasks[place], f"attempt-{self._number}", lambda messages, size_bytes: None)
            if place not in results or self._random.random() < 0.5:
                results[place] = done
        return [results[place] for place in range(len(tasks))]


def facts(report: RebuildReport) -> dict[str, Any]:
    """The report without what is the engine's own."""
    own = ("engine", "tasks", "seconds", "kept")
    return {name: value for name, value in report.to_json().items() if name not in own}


def check(
    store: Path, tmp_path: Path, config: StoreConfig, part_size_bytes: int, runner: Runner | None = None
) -> RebuildReport:
    """Rebuilds both ways; all files and both reports must be equal."""
    runner = runner or Serial()
    local, parallel = tmp_path / f"local-{part_size_bytes}", tmp_path / f"parallel-{part_size_bytes}"
    expected = rebuild(str(store), str(local), config, sync=False)
    report = rebuild_on(
        runner, str(store), str(parallel), config, sync=False, engine="spark", part_size_bytes=part_size_bytes
    )
    assert contents(parallel) == contents(local)
    assert facts(report) == facts(expected)
    assert report.engine == "spark"
    assert report.tasks == runner.tasks
    return report


def messages(count: int, seed: int = 1, *, keys_max: int = 3) -> Iterator[StoredMessage]:
    """Messages of three queues of two topics, with bodies of many sizes and some keys."""
    chance = random.Random(seed)
    offsets = [5, 0, 123]
    for number in range(count):
        queue = chance.randrange(3)
        keys = " ".join(f"key-{chance.randrange(20)}" for _ in range(chance.randint(0, keys_max)))
        yield make_message(
            b"TopicA" if queue < 2 else b"TopicB",
            queue_id=queue,
            queue_offset=offsets[queue],
            body=chance.randbytes(chance.choice([0, 1, 30, 300, 1500])),
            store_timestamp_ms=1_700_000_000_000 + 37 * number,
            sys_flag=SYS_FLAG_ROLLBACK if chance.random() < 0.1 else 0,
            properties=[(b"KEYS", keys.encode())] if keys else [],
        )
        offsets[queue] += 1


def real_stores() -> Iterator[Any]:
    """Each store with each size; the default run takes one size of some."""
    for number, name in enumerate(golden.NAMES):
        for turn, part_size in enumerate([3000, 30_000, 1 << 20]):
            yield pytest.param(name, part_size, marks=[] if turn == number % 7 else [pytest.mark.slow])


@pytest.mark.parametrize(("name", "part_size"), list(real_stores()))
def test_stores_of_real_brokers(name: str, part_size: int, golden_store: Callable[[str], Path], tmp_path: Path) -> None:
    config = config_of(name)
    if config.max_index_num > 1 << 20:
        config = replace(config, max_hash_slot_num=5003, max_index_num=1009)  # files of 420 MB take long to compare
    if config.mapped_file_size_commit_log > 1 << 20:
        part_size *= 1000
    check(golden_store(name), tmp_path, config, part_size)


@pytest.mark.parametrize("jobs", [2, *(pytest.param(jobs, marks=pytest.mark.slow) for jobs in (1, 4))])
def test_threads_write_the_same(jobs: int, tmp_path: Path) -> None:
    write_commit_log(str(tmp_path / "store"), messages(300), 4096)
    for part_size in PART_SIZES:
        check(tmp_path / "store", tmp_path, CONFIG, part_size, LocalRunner(jobs=jobs))


@pytest.mark.parametrize("max_index_num", [2, 3, 5, 8, 1000])
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
def test_rolled_index_files(max_index_num: int, seed: int, tmp_path: Path) -> None:
    write_commit_log(str(tmp_path / "store"), messages(60, seed), 4096)
    for part_size in PART_SIZES:
        report = check(tmp_path / "store", tmp_path, replace(CONFIG, max_index_num=max_index_num), part_size)
        assert report.index_files >= report.index_entries / (max_index_num - 1)


@pytest.mark.parametrize(
    ("keys", "files"),
    [([7, 0], 2), ([7], 1), ([4, 3, 0, 0], 2), ([0, 0, 0], 1), ([7, 7, 0], 3), ([20], 3), ([6, 0, 1, 1], 2), ([], 0)],
)
def test_full_and_empty_index_files(keys: list[int], files: int, tmp_path: Path) -> None:
    """A message behind a full file makes one more, be it without keys; a log without keys has
    one."""
    made = [
        make_message(
            queue_offset=number,
            body=b"x" * 900,
            store_timestamp_ms=1_700_000_000_000 + number,
            properties=[(b"KEYS", b" ".join(b"%d" % key for key in range(count)))] if count else [],
        )
        for number, count in enumerate(keys)
    ]
    write_commit_log(str(tmp_path / "store"), made, 4096)
    for part_size in PART_SIZES:
        assert check(tmp_path / "store", tmp_path, CONFIG, part_size).index_files == files


@pytest.mark.parametrize("size", [2048, 3000, 65536])
def test_any_commit_log_file_size(size: int, tmp_path: Path) -> None:
    write_commit_log(str(tmp_path / "store"), messages(80), size, start_offset=7 * size)
    for part_size in PART_SIZES:
        check(tmp_path / "store", tmp_path, replace(CONFIG, mapped_file_size_commit_log=size), part_size)


@pytest.mark.parametrize("seed", range(4))
def test_repeated_attempts_and_any_order(seed: int, tmp_path: Path) -> None:
    write_commit_log(str(tmp_path / "store"), messages(80), 4096)
    check(tmp_path / "store", tmp_path, CONFIG, 700, Serial(seed, attempts=3))


def test_bodies_that_look_like_messages(tmp_path: Path) -> None:
    """Wherever parts begin: none begins with a message inside such a body, so only the log's end is
    looked at again."""
    plain = [make_message(queue_offset=number, body=b"y" * 600) for number in range(12)]
    size = 16384
    step = plain[0].size_bytes
    at = 0
    made = []
    for number in range(12):
        inside = make_message(b"Fake", body=b"z" * 20)
        body_at = at + (step - len(plain[0].properties_raw) - 2 - len(b"TopicA") - 1 - 600)
        lie = encode_message(replace(inside, physical_offset=body_at))
        made.append(make_message(queue_offset=number, body=lie + b"y" * (600 - len(lie))))
        at += step
    write_commit_log(str(tmp_path / "store"), made, size)
    config = replace(CONFIG, mapped_file_size_commit_log=size)
    runner = Serial()
    report = check(tmp_path / "store", tmp_path, config, 100, runner)
    assert report.messages == 12
    with CommitLog.of_store(str(tmp_path / "store"), file_size_bytes=size) as log:
        parts = [part for task in rebuild_parts.plan_parts(log, 100) for part in task]
        firsts = [
            rebuild_parts.scan_part(part, config, str(tmp_path / f"stage-{number}")).first
            for number, part in enumerate(parts)
        ]
    assert [first for first in firsts if first >= 0] == [step * number for number in range(12)]


def harm(store: Path, number: int, position: int, data: bytes) -> None:
    path = sorted((store / "commitlog").iterdir())[number]
    with path.open("r+b") as file:
        file.seek(position)
        file.write(data)


@pytest.mark.parametrize("part_size", PART_SIZES)
@pytest.mark.parametrize("seed", [0, 5, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 5))])
def test_harmed_logs_end_where_they_end(seed: int, part_size: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    store = tmp_path / "store"
    write_commit_log(str(store), messages(60, seed), 4096)
    for _ in range(seed % 3 + 1):
        harm(store, chance.randrange(3), chance.randrange(4096), chance.randbytes(chance.choice([1, 8, 300])))
    if seed == 5:
        sorted((store / "commitlog").iterdir())[1].unlink()
    report = check(store, tmp_path, CONFIG, part_size)
    assert seed != 5 or report.lossy


@pytest.mark.parametrize(
    "offsets", [[-1, 3, 4, 2], [-5, -4, -3], [1 << 62, 5, 6, 7], [3, 1 << 61, 4, -9, 5], [4, 4, 5, 9, 8, 10]]
)
def test_queue_offsets_that_cannot_be(offsets: list[int], tmp_path: Path) -> None:
    write_commit_log(str(tmp_path / "store"), [make_message(queue_offset=offset) for offset in offsets], 4096)
    for part_size in PART_SIZES:
        report = check(tmp_path / "store", tmp_path, CONFIG, part_size)
        assert report.lossy == (offsets != [3])
        assert report.queue_entries <= len(offsets)


def test_topics_that_no_folder_can_be_named_for(tmp_path: Path) -> None:
    topics = [b"ok", b"..", b"a/b", b"x" * 120, b"\xff\xfe", b"\xfd\xfc"]
    made = [make_message(topic, queue_offset=number // 6) for number, topic in enumerate(topics * 5)]
    write_commit_log(str(tmp_path / "store"), made, 4096)
    for part_size in PART_SIZES[1:]:
        assert len(check(tmp_path / "store", tmp_path, CONFIG, part_size).losses) >= 2


def test_many_queues(tmp_path: Path) -> None:
    made = [
        make_message(b"T%d" % (number % 40), queue_id=number % 7, queue_offset=number // 280) for number in range(900)
    ]
    write_commit_log(str(tmp_path / "store"), made, 4096)
    assert check(tmp_path / "store", tmp_path, CONFIG, 5000).queues == 280


def test_in_place_keeps_what_it_replaces(tmp_path: Path) -> None:
    store = tmp_path / "store"
    write_commit_log(str(store), messages(20), 4096)
    with pytest.raises(UsageError):
        rebuild_on(Serial(), str(store), str(store), CONFIG)
    first = rebuild_on(Serial(), str(store), str(store), CONFIG, in_place=True, sync=True)
    written = contents(store)
    second = rebuild_on(Serial(), str(store), str(store), CONFIG, in_place=True, sync=False)
    assert first.kept == {}
    assert set(second.kept) == {"consumequeue", "index"}
    assert {name: data for name, data in contents(store).items() if name in written} == written


def test_the_driver_reads_two_messages_of_a_file_at_most(tmp_path: Path) -> None:
    written = list(messages(60))
    write_commit_log(str(tmp_path / "store"), written, 4096)
    files, env = len(list((tmp_path / "store" / "commitlog").iterdir())), Env()
    rebuild_on(Serial(), str(tmp_path / "store"), str(tmp_path / "out"), CONFIG, env=env, part_size_bytes=700)
    assert env.counters.mapped_bytes == 0
    assert env.counters.read_bytes <= files * 2 * max(len(encode_message(each)) for each in written)


def test_refusals_are_typed(tmp_path: Path) -> None:
    (tmp_path / "store" / "commitlog").mkdir(parents=True)
    with pytest.raises(NotAStoreError):
        rebuild_on(Serial(), str(tmp_path / "store"), str(tmp_path / "out"), CONFIG)
    with pytest.raises(LogdexError):
        rebuild_on(Serial(), str(tmp_path / "nothing"), str(tmp_path / "out"), CONFIG)


def test_nothing_but_the_files_is_left(tmp_path: Path) -> None:
    write_commit_log(str(tmp_path / "store"), messages(20), 4096)
    rebuild_on(Serial(attempts=2), str(tmp_path / "store"), str(tmp_path / "out"), CONFIG)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["consumequeue", "index"]


def test_a_failing_run_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_commit_log(str(tmp_path / "store"), messages(20), 4096)

    def fail(*_: object, **__: object) -> None:
        raise UsageError("no")

    monkeypatch.setattr("logdex.rocketmq.rebuild.job.write_queues", fail)
    with pytest.raises(UsageError):
        rebuild_on(Serial(), str(tmp_path / "store"), str(tmp_path / "out"), CONFIG)
    assert list((tmp_path / "out").iterdir()) == []


def test_plans_group_small_files_and_cut_large_ones() -> None:
    from logdex.rocketmq.commit_log.commit_log import CommitLogFile

    class Listing:
        file_size_bytes = 1000
        files = tuple(CommitLogFile(str(at), at, 1000) for at in range(0, 6000, 1000))

        def readable_from(self) -> int:
            return 0

    def shape(part_size: int) -> list[list[tuple[int, int, int]]]:
        plan = rebuild_parts.plan_parts(Listing(), part_size)  # type: ignore[arg-type]
        return [[(part.file.start_offset, part.begin, part.stop) for part in task] for task in plan]

    assert shape(1000) == [[(at, 0, 1000)] for at in range(0, 6000, 1000)]
    assert [len(task) for task in shape(3000)] == [3, 3]
    assert shape(400)[:3] == [[(0, 0, 500)], [(0, 500, 1000)], [(1000, 0, 500)]]
    assert rebuild_parts.parallel_part_size(8 << 30, 2) == 1 << 30
    assert rebuild_parts.parallel_part_size(2 << 30, 2) == 512 << 20
    assert rebuild_parts.parallel_part_size(1000, 2) == 64 << 20


@pytest.mark.parametrize("entries", [1, 2, 3, 5])
def test_blocks_of_entries_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entries: int) -> None:
    """IndexFiles of 7 entries, written in blocks that end within them, with them and behind
    them."""
    write_commit_log(str(tmp_path / "store"), messages(40), CONFIG.mapped_file_size_commit_log)
    rebuild(str(tmp_path / "store"), str(tmp_path / "whole"), CONFIG, sync=False)
    written: list[int] = []
    write_entries = writer.IndexTarget.write_entries

    def noted(target: writer.IndexTarget, first: int, end: int) -> None:
        written.append(end - first)
        write_entries(target, first, end)

    monkeypatch.setattr(writer.IndexTarget, "write_entries", noted)
    monkeypatch.setattr(writer, "BLOCK_ENTRIES", entries)
    rebuild(str(tmp_path / "store"), str(tmp_path / "blocks"), CONFIG, sync=False)
    assert max(written) == entries
    assert contents(tmp_path / "blocks") == contents(tmp_path / "whole")


@pytest.mark.parametrize("harm", ["removed", "emptied", "zeros"])
@pytest.mark.parametrize("was_killed", [False, True], ids=["closed", "killed"])
def test_a_lost_end_of_which_what_is_replaced_tells(harm: str, was_killed: bool, tmp_path: Path) -> None:
    """What a killed broker had not written to disk is no damage of the files."""
    store = tmp_path / "store"
    write_commit_log(str(store), messages(60), 4096)
    rebuild(str(store), str(store), CONFIG, in_place=True, sync=False)
    assert check(store, tmp_path, CONFIG, 3000).losses == []
    last = max((store / "commitlog").iterdir())
    last.write_bytes(bytes(4096) if harm == "zeros" else b"")
    if harm == "removed":
        last.unlink()
    if was_killed:
        (store / "abort").write_text("1")
    report = check(store, tmp_path, CONFIG, 3001)  # an output of its own
    by_index, by_queue = report.notes if was_killed else report.losses
    assert "keys of messages up to physical offset" in by_index
    assert f"behind the log's end at {report.end_offset}" in by_queue
    report = rebuild(str(store), str(store), CONFIG, in_place=True, sync=False)
    assert report.lossy is not was_killed


def test_of_damage_only_what_lies_behind_the_last_file_is_told_again(tmp_path: Path) -> None:
    store = tmp_path / "store"
    write_commit_log(str(store), messages(60), 4096)
    rebuild(str(store), str(store), CONFIG, in_place=True, sync=False)
    *_, before, last = sorted((store / "commitlog").iterdir())
    data = before.read_bytes()
    before.write_bytes(bytes(100) + data[100:])
    assert len(check(store, tmp_path, CONFIG, 3000).losses) == 1
    last.unlink()
    ending, _by_queue, _damage = check(store, tmp_path, CONFIG, 3001).losses
    assert "the log's last messages are lost" in ending
