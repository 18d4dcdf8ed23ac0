"""What Kafka's `rebuild` and `recover` publish, killed before and after every change of names and
every fsync."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from logdex.errors import UsageError
from logdex.io.env import Env
from logdex.kafka.batch.record import Record
from logdex.kafka.files.file_names import CLEAN_SHUTDOWN, LOCK_FILE
from logdex.kafka.log.log import Log
from logdex.kafka.rebuild import rebuild
from logdex.kafka.recover import recover
from logdex.testing import Fault, FaultEnv, Killed
from tests.cli.helpers import run as run_command
from tests.crash.kafka.publications import CONFIG, Publications
from tests.crash.publications import (
    EVERY_KILL,
    OldDiskEnv,
    check_killed,
    check_named_and_mended,
    killed_while_publishing,
)
from tests.crash.trees import Fresh, tree
from tests.examples import cases

pytestmark = pytest.mark.timeout(1800)  # one kill per operation, with a run of its own each

BELOW = pytest.mark.parametrize(
    "below", ["", pytest.param("events-1", marks=pytest.mark.slow)], ids=["log directory", "partition"]
)


@pytest.fixture(scope="module")
def publications(tmp_path_factory: pytest.TempPathFactory) -> Publications:
    return Publications(tmp_path_factory.mktemp("publications"))


@EVERY_KILL
@BELOW
def test_recover_in_place(publications: Publications, fresh: Fresh, below: str, every: int) -> None:
    check_killed(publications.recover_in_place(below), fresh, every)


@EVERY_KILL
def test_recover_in_place_where_files_have_no_second_names(
    publications: Publications, fresh: Fresh, every: int
) -> None:
    check_killed(publications.recover_in_place("events-1"), fresh, every, OldDiskEnv, may_miss=True)


@EVERY_KILL
def test_recover_elsewhere(publications: Publications, fresh: Fresh, every: int) -> None:
    check_killed(publications.recover_elsewhere(), fresh, every)


@EVERY_KILL
@BELOW
def test_rebuild_in_place(publications: Publications, fresh: Fresh, below: str, every: int) -> None:
    check_killed(publications.rebuild_in_place(below), fresh, every)


@EVERY_KILL
@pytest.mark.parametrize("had_old", cases([False, True], 2, first=1), ids=["new output", "old output"])
def test_rebuild_elsewhere(publications: Publications, fresh: Fresh, had_old: bool, every: int) -> None:
    check_killed(publications.rebuild_elsewhere(had_old=had_old), fresh, every)


def test_info_and_verify_name_it(publications: Publications, tmp_path: Path) -> None:
    check_named_and_mended(publications.recover_in_place(), tmp_path)


@pytest.mark.slow
def test_a_killed_output_is_named_and_is_not_called_full(publications: Publications, tmp_path: Path) -> None:
    check_named_and_mended(publications.recover_elsewhere(), tmp_path)


def test_no_mark_vouches_for_what_is_half_published(publications: Publications, tmp_path: Path) -> None:
    target = killed_while_publishing(publications.recover_in_place(), tmp_path)
    assert not (target / CLEAN_SHUTDOWN).exists()
    (tmp_path / "one").mkdir()
    target = killed_while_publishing(publications.recover_in_place("events-1"), tmp_path / "one")
    assert not (target / CLEAN_SHUTDOWN).exists()


def test_no_index_of_another_log_lies_beside_a_log(publications: Publications, fresh: Fresh) -> None:
    """A broker would trust it, if the recovery point lies behind."""
    case = publications.recover_in_place("events-1")
    assert case.check_order is not None
    folder = fresh()
    target, env = case.start(folder), FaultEnv(str(folder))
    case.run(folder, env)
    done = tree(target)
    renamed = [at for at, (kind, path) in enumerate(env.log, 1) if kind == "rename" and path.endswith(".log")]
    assert len(renamed) > 2
    for at in renamed:
        folder = fresh()
        target, killed = case.start(folder), FaultEnv(str(folder), Fault(at + 1))
        with pytest.raises(Killed):
            case.run(folder, killed)
        killed.release()
        case.check_order(tree(target), done)


@pytest.mark.parametrize("first", ["", "events-0"], ids=["log directory", "partition"])
@pytest.mark.parametrize("second", ["", "orders-0"], ids=["log directory", "partition"])
def test_two_runs_in_place_are_kept_apart_without_the_brokers_lock(
    publications: Publications, tmp_path: Path, first: str, second: str
) -> None:
    """The second one begins while the first one has written everything and published nothing."""
    root = tmp_path / "logs"
    shutil.copytree(publications.stale, root)
    assert not (root / LOCK_FILE).exists()
    refused: list[bool] = []

    class OtherRuns(Env):
        def link(self, source: str, target: str) -> bool:
            if not refused:
                refused.append(True)
                for run in (rebuild, recover):
                    with pytest.raises(UsageError, match="another run is writing here"):
                        run(f"{root}/{second}", f"{root}/{second}", in_place=True)
            return super().link(source, target)

    rebuild(f"{root}/{first}", f"{root}/{first}", in_place=True, env=OtherRuns())
    assert refused


def test_a_half_published_partition_is_not_written(publications: Publications, tmp_path: Path) -> None:
    """Its new .log may stand beside an old .index, and its other partitions are as they were."""
    case = publications.recover_in_place("events-1")
    target = killed_while_publishing(case, tmp_path)
    before = tree(target)
    with pytest.raises(UsageError, match=r"recover .* was killed while it published") as refused:
        Log.open(target / "events-1")
    assert refused.value.hint is not None
    assert refused.value.hint.endswith(f"logdex recover {target}/events-1 --in-place")
    assert tree(target) == before
    Log.open(target / "events-0").close()
    case.run(tmp_path / "killed", Env())
    with Log.open(target / "events-1") as log:
        assert log.append([Record(value=b"new")]).last_offset >= 0


def test_no_old_mark_vouches_for_what_a_broker_wrote_after_the_kill(publications: Publications, tmp_path: Path) -> None:
    """A broker that was started after the kill writes to another partition, and is killed too."""
    case = publications.recover_in_place("events-1")
    target = killed_while_publishing(case, tmp_path)
    last = sorted((target / "events-0").glob("*.log"))[-1]
    with last.open("ab") as file:
        file.write(b"\0" * 8 + b"\0\0\1\0torn")
    report = recover(target / "events-1", target / "events-1", CONFIG, in_place=True)
    assert not (target / CLEAN_SHUTDOWN).exists()
    assert [note for note in report.notes if f"so {target / CLEAN_SHUTDOWN} stays under its dated name" in note]
    with Log.open(target / "events-0", CONFIG) as log:
        assert not log.load_report.was_clean


@pytest.mark.parametrize("asked", [("cat",), ("stats",), ("sql", "SELECT count(*) FROM records"), ("recover", "-o")])
def test_commands_tell_that_they_read_what_is_half_published(
    asked: tuple[str, ...], publications: Publications, tmp_path: Path
) -> None:
    target = killed_while_publishing(publications.rebuild_in_place(""), tmp_path)
    more = (tmp_path / "new",) if asked[-1] == "-o" else ()
    done = run_command(asked[0], target, *asked[1:], *more)
    assert done.exit_code == (3 if more else 1)
    assert "was killed while it published: some files are new, and some are as before" in done.stderr
