"""Jobs on a store whose log a broker cuts meanwhile, as it does when it recovers, and then goes on
with. That is no damage."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import logdex
from logdex.convert.export import export
from logdex.convert.filter.store import filter_store
from logdex.convert.sources.rocketmq import StoreSource
from logdex.convert.stats import stats
from logdex.convert.stats.report import StatsReport
from logdex.convert.translate.job import convert
from logdex.errors import NotAStoreError, VanishedError
from logdex.io.env import Env
from logdex.jobs.reports import Lossy
from logdex.rocketmq.message.stored_message import StoredMessage
from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot
from logdex.testing import Fault, FaultEnv
from tests.beside import At, Beside, become
from tests.examples import some
from tests.unit.rocketmq.small_stores import CONFIG, CUT, FILE_SIZE, MESSAGES, REGROWN, build, message

Job = Callable[[Path, Path, Env], Lossy]
Bodies = list[bytes]
AFTERWARDS = pytest.mark.parametrize(("messages", "name"), [(CUT, 2048), (REGROWN, 4096)], ids=["cut", "regrown"])
"""What the log has later, and the file before any opening of which it comes to have that."""


def of(root: Path) -> StoreSource:
    return StoreSource(str(root), settings={"mapped_file_size_commit_log": FILE_SIZE})


def converted(root: Path, output: Path, env: Env) -> Lossy:
    return convert(of(root), output, sync=False, env=env)


def counted(root: Path, _: Path, env: Env) -> Lossy:
    return stats(of(root), env=env)


def exported(root: Path, output: Path, env: Env) -> Lossy:
    return export(of(root), output, sync=False, env=env)


def filtered(root: Path, output: Path, env: Env) -> Lossy:
    with StoreSnapshot(root, config=CONFIG, env=env) as snapshot:
        return filter_store(snapshot, snapshot.scan(), output, source=str(root), sync=False, env=env)


def beside(job: Job, tmp_path: Path, messages: list[StoredMessage], name: int) -> Iterator[tuple[Lossy, Path]]:
    """Runs a job in a store whose log comes to have other messages before any opening of one of its
    files. Yields the reports and where they were written."""
    before, after = build(tmp_path / "before", MESSAGES), build(tmp_path / "after", messages)
    for number in count(1):
        root, output = Path(shutil.copytree(before, tmp_path / "root")), tmp_path / f"output-{number}"
        env = Beside(f"commitlog/{name:020d}", partial(become, root, after), number)
        yield job(root, output, env), output
        shutil.rmtree(root)
        if not env.has_acted:
            break


def is_of_one(found: list[bytes], logs: list[list[bytes]]) -> bool:
    """Whether what was found is what one of the logs has, up to some message behind `CUT`."""
    return len(found) >= len(CUT) and any(found == log[: len(found)] for log in logs)


def bodies_in(log_dir: Path) -> Bodies:
    """The bodies of the partition, whose offsets are those of the queue."""
    with logdex.open(log_dir) as snapshot:
        found = snapshot.scan().to_arrow(["offset", "value"]).read_all()
    assert found["offset"].to_pylist() == list(range(len(found)))
    return list(found["value"].to_pylist())


def bodies_of_export(output: Path) -> Bodies:
    files = sorted(output.rglob("*.parquet"))
    if not files:
        return []
    tables = [pq.read_table(file, columns=["physicalOffset", "body"], partitioning=None) for file in files]
    return list(pa.concat_tables(tables).sort_by("physicalOffset")["body"].to_pylist())


def bodies_of_store(output: Path) -> Bodies:
    with StoreSnapshot(output, config=CONFIG) as snapshot:
        return [message.body for message in snapshot.scan()]


@AFTERWARDS
def test_what_is_counted_is_of_one_log(tmp_path: Path, messages: list[StoredMessage], name: int) -> None:
    for report, _ in beside(counted, tmp_path, messages, name):
        assert isinstance(report, StatsReport)
        assert report.losses == []
        first = [log[: report.messages] for log in (MESSAGES, messages)]
        assert report.size_bytes in [sum(message.size_bytes for message in log) for log in first]
        assert report.messages >= len(CUT)


@AFTERWARDS
@pytest.mark.parametrize(("job", "bodies_of"), [(converted, bodies_in), (exported, bodies_of_export)])
def test_what_is_written_is_of_one_log(
    tmp_path: Path, job: Job, bodies_of: Callable[[Path], Bodies], messages: list[StoredMessage], name: int
) -> None:
    bodies = [[message.body for message in log] for log in (MESSAGES, messages)]
    for report, output in beside(job, tmp_path, messages, name):
        assert report.losses == []
        assert is_of_one(bodies_of(output), bodies)


def in_two_topics(messages: list[StoredMessage]) -> list[StoredMessage]:
    return [
        replace(each, topic=b"TopicB" if number % 2 else each.topic, queue_offset=number // 2)
        for number, each in enumerate(messages)
    ]


@pytest.mark.timeout(900)
def test_two_topics_are_of_one_log(tmp_path: Path) -> None:
    grown = CUT + [message(number, body=b"other %d" % number) for number in range(len(CUT), 50)]
    before, after = build(tmp_path / "before", in_two_topics(MESSAGES)), build(tmp_path / "after", in_two_topics(grown))
    logs, still = [[each.body for each in log] for log in (MESSAGES, grown)], At(0, lambda: None)
    converted(before, tmp_path / "still", still)
    for number in some(range(1, -still.left + 1), 25):
        root, output = Path(shutil.copytree(before, tmp_path / "root")), tmp_path / f"output-{number}"
        report = converted(root, output, At(number, partial(become, root, after)))
        assert report.losses == []
        with logdex.open(output) as snapshot:
            found = [bytes(each) for each in snapshot.scan().to_arrow(["value"]).read_all()["value"].to_pylist()]
        assert is_of_one(sorted(found, key=lambda body: int(body.split()[1])), logs), number
        shutil.rmtree(root)


def test_what_was_exported_of_a_log_that_is_emptied_is_not_published(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    for folder in ("commitlog", "consumequeue", "index"):
        (empty / folder).mkdir(parents=True)
    (empty / "commitlog" / f"{0:020d}").write_bytes(bytes(FILE_SIZE))
    before, whole = build(tmp_path / "before", MESSAGES), At(0, lambda: None)
    exported(before, tmp_path / "whole", whole)
    kept = bodies_of_export(tmp_path / "whole")
    emptied = 0
    for number in some(range(1, -whole.left + 1), 20, first=11):
        root, output = Path(shutil.copytree(before, tmp_path / "root")), tmp_path / f"output-{number}"
        try:
            report = export(of(root), output, sync=False, env=At(number, partial(become, root, empty)))
        except (VanishedError, NotAStoreError):  # while nothing is left of the log
            continue
        finally:
            shutil.rmtree(root)
        emptied += not report.positions["commitlog"]
        assert bodies_of_export(output) == (kept if report.positions["commitlog"] else [])
        assert report.messages == len(bodies_of_export(output))
    assert emptied


def test_what_cannot_be_read_is_no_cut(tmp_path: Path) -> None:
    source = of(build(tmp_path / "store", MESSAGES))
    plan = source.plan(("body",), {}, 1 << 20)
    for number in range(1, 30):
        env = FaultEnv(str(tmp_path), Fault(number, errno.EIO, lasting=True))
        assert source.still_holds(plan, env), number
        if not env.hits:
            break
    assert number > 3


@AFTERWARDS
def test_a_filter_says_that_the_log_was_cut(tmp_path: Path, messages: list[StoredMessage], name: int) -> None:
    bodies = [[message.body for message in log] for log in (MESSAGES, messages)]
    for report, output in beside(filtered, tmp_path, messages, name):
        assert not report.damaged, report.losses
        assert is_of_one(bodies_of_store(output), bodies) or any("was cut" in loss for loss in report.losses)
