"""A rebuild or a recovery in place that was killed while it published, and then another command."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import logdex
from logdex.errors import CorruptError, UnfinishedPublicationWarning, UsageError
from logdex.formats import FORMATS, detect, format_of
from logdex.io.env import Env
from logdex.jobs.journal import LOCK_NAME, Journal, Step, read_journal
from logdex.rocketmq import MessageStore, StoreSnapshot
from logdex.spark.sources.paths import open_snapshot
from logdex.testing import Fault, FaultEnv, Killed
from tests.cli.helpers import run, run_json
from tests.crash.publications import PUBLISHING, OldDiskEnv, type_the_mend, undated
from tests.crash.rocketmq.stores import write_log
from tests.crash.trees import tree
from tests.examples import cases


def open_source(path: Path, **settings: Any) -> StoreSnapshot:
    """Opens a store as a DataFrame does."""
    opened: StoreSnapshot = open_snapshot("rocketmq_store", str(path), FORMATS["rocketmq"], settings, Env())
    return opened


SETTINGS = {"mapped_file_size_consume_queue": 320, "max_hash_slot_num": 11, "max_index_num": 40}
OTHER = {"mapped_file_size_consume_queue": 160, "max_hash_slot_num": 5, "max_index_num": 90}
FLAGS = ("--mapped-file-size-consume-queue", 320, "--max-hash-slot-num", 11, "--max-index-num", 40)
COMMANDS: dict[str, dict[str, Any]] = {
    "rebuild": SETTINGS,
    "rebuild with other sizes": OTHER,
    "rebuild with deleted topics": SETTINGS | {"deleted_topics": True},
    "rebuild in another time zone": SETTINGS | {"time_zone": "+08:00"},
    "rebuild as 4.9.7": SETTINGS | {"rocketmq_version": "4.9.7"},
    "recover": SETTINGS,
    "recover with other sizes": OTHER,
}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a damaged message and a deleted topic, from which no size but the log's can be
    inferred."""
    root = write_log(tmp_path_factory.mktemp("source") / "a store", 24)
    path = root / "commitlog" / f"{0:020d}"
    data = path.read_bytes()
    path.write_bytes(data[:300] + b"\xff" * 50 + data[350:])
    (root / "config").mkdir()
    (root / "config" / "topics.json").write_text('{"topicConfigTable":{"TopicA":{}}}')
    (root / "checkpoint").write_bytes(bytes(4096))
    (root / "abort").write_text("77")
    return root


def start(source: Path, folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    return Path(shutil.copytree(source, folder / "a store"))


def in_place(name: str, root: Path, env: Env) -> None:
    found = detect(str(root))
    job: Callable[..., Any] = getattr(format_of(found), name.split()[0])
    job(found, COMMANDS[name], None, in_place=True, env=env).run(None)


def kills(name: str, source: Path, folder: Path, env_of: type[FaultEnv]) -> list[int]:
    """The changes of the disk from the journal on, and the operations after them, but for the end,
    when all is done."""
    root = start(source, folder)
    env = env_of(str(folder))
    in_place(name, root, env)
    begin = max(at for at, (kind, path) in enumerate(env.log, 1) if kind == "sync" and path.endswith(".logdex-lock"))
    changes = [at for at, (kind, _) in enumerate(env.log, 1) if kind in PUBLISHING and at > begin]
    return changes[:-1]


def killed(name: str, at: int, source: Path, folder: Path, env_of: type[FaultEnv] = FaultEnv) -> Path:
    root = start(source, folder)
    env = env_of(str(folder), Fault(at))
    with pytest.raises(Killed):
        in_place(name, root, env)
    env.release()
    return root


@pytest.mark.parametrize(
    ("env_of", "first"),
    cases(itertools.product([FaultEnv, OldDiskEnv], ["rebuild", "rebuild with deleted topics", "recover"]), 2),
)
def test_another_command_does_what_it_does_without_the_kill(
    source: Path, tmp_path: Path, first: str, env_of: type[FaultEnv]
) -> None:
    places = kills(first, source, tmp_path / "work", env_of)
    for number, second in enumerate(COMMANDS):
        root = start(source, tmp_path / "work")
        in_place(second, root, Env())
        right = undated(tree(root))
        for at in places[number % 4 :: 4]:
            root = killed(first, at, source, tmp_path / "work", env_of)
            in_place(second, root, env_of(str(tmp_path / "work")))
            assert undated(tree(root)) == right, (at, second)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_mend_has_the_flags_of_the_killed_run(source: Path, tmp_path: Path, name: str) -> None:
    """It is typed as it is printed, in a shell, for a path with a blank in it."""
    root = start(source, tmp_path / "work")
    in_place(name, root, Env())
    right = undated(tree(root))
    places = kills(name, source, tmp_path / "work", FaultEnv)
    root = killed(name, places[len(places) // 2], source, tmp_path / "work")
    type_the_mend(root)
    assert undated(tree(root)) == right


def test_a_properties_file_is_named_by_its_whole_path(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my.conf").write_text("maxHashSlotNum=11\nmaxIndexNum=40\nmappedFileSizeConsumeQueue=320\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(COMMANDS, "rebuild by a file", {"broker_conf": "my.conf"})
    places = kills("rebuild by a file", source, tmp_path / "work", FaultEnv)
    root = killed("rebuild by a file", places[len(places) // 2], source, tmp_path / "work")
    rows = run_json("verify", root, exit_code=1)
    assert any(f"--broker-conf {tmp_path}/my.conf" in row.get("mend", "") for row in rows)


ELSEWHERE = ["rebuild", "recover", "dispatch", "export", "convert --to kafka", "filter"]


@pytest.mark.parametrize("command", ELSEWHERE)
@pytest.mark.parametrize("env_of", [FaultEnv, OldDiskEnv], ids=["half", "missing"])
def test_nothing_is_made_of_a_log_that_will_be_undone(
    source: Path, tmp_path: Path, command: str, env_of: type[FaultEnv]
) -> None:
    """The recovery had published the log, or set it aside, and had told nobody yet what is lost."""
    root = start(source, tmp_path / "work")
    env = env_of(str(tmp_path / "work"))
    in_place("recover", root, env)
    kind = "rename" if env_of is OldDiskEnv else "exchange"
    at = next(at for at, (each, path) in enumerate(env.log, 1) if each == kind and path.endswith("commitlog"))
    root = killed("recover", at + 1, source, tmp_path / "work", env_of)
    before = tree(root)
    told = run(*command.split(), root, "-o", tmp_path / "out", *(FLAGS if command in ELSEWHERE[:3] else ()))
    assert told.exit_code == 2, told
    assert told.stderr.count(f"run it again, which first undoes that: logdex recover '{root}' --in-place") == 1
    assert tree(root) == before
    if env_of is OldDiskEnv:
        for reading in ("info", "cat", "verify"):
            assert "run it again, which first undoes that" in run(reading, root).stderr


@pytest.mark.parametrize("command", ELSEWHERE)
@pytest.mark.parametrize("first", ["rebuild", "recover"])
def test_nothing_is_written_or_undone_beside_what_a_run_in_place_left(
    source: Path, tmp_path: Path, first: str, command: str
) -> None:
    """A job with another source has no lock of the broker whose store its output is."""
    other = start(source, tmp_path / "other")
    for at in kills(first, source, tmp_path / "work", FaultEnv)[::4]:
        root = killed(first, at, source, tmp_path / "work")
        before = tree(root)
        told = run(*command.split(), other, "-o", root, *(FLAGS if command in ELSEWHERE[:3] else ()))
        assert told.exit_code == 2, told
        assert f"run it again, which first undoes that: logdex {first}" in told.stderr
        assert tree(root) == before
        with pytest.raises(UsageError, match="was killed while it published"):
            MessageStore.open(root)
        assert tree(root) == before


@pytest.mark.parametrize(
    "asked",
    [
        ("cat",),
        ("get", "--topic", "TopicA", "--queue", 0, "--offset", 0),
        ("query", "--topic", "TopicA", "--key", "k1"),
        ("offsets",),
        ("sql", "SELECT count(*) FROM messages"),
        ("stats",),
    ],
    ids=lambda asked: asked[0],
)
def test_reading_commands_tell_of_it(asked: tuple[Any, ...], source: Path, tmp_path: Path) -> None:
    places = kills("rebuild", source, tmp_path / "work", FaultEnv)
    root = killed("rebuild", places[len(places) // 2], source, tmp_path / "work")
    done = run(asked[0], root, *asked[1:])
    assert done.exit_code == 1
    assert "was killed while it published: some files are new, and some are as before" in done.stderr
    assert "run it again, which first undoes that: logdex rebuild" in done.stderr


@pytest.mark.parametrize("command", ["rebuild", "recover", "dispatch", "export"])
def test_commands_that_read_the_log_tell_of_half_published_queues(source: Path, tmp_path: Path, command: str) -> None:
    places = kills("rebuild", source, tmp_path / "work", FaultEnv)
    root = killed("rebuild", places[len(places) // 2], source, tmp_path / "work")
    done = run(command, root, "-o", tmp_path / "out", *(() if command == "export" else FLAGS))
    assert done.exit_code == 3
    assert "run it again, which first undoes that: logdex rebuild" in done.stderr
    assert "Warning" not in done.stderr


@pytest.mark.parametrize("open_it", [logdex.open, logdex.open_store, StoreSnapshot, open_source])
@pytest.mark.parametrize("below", ["", f"commitlog/{0:020d}"])
def test_who_opens_it_is_warned(source: Path, tmp_path: Path, open_it: Callable[..., Any], below: str) -> None:
    *_, at = kills("recover", source, tmp_path / "work", FaultEnv)
    root = killed("recover", at, source, tmp_path / "work")
    with pytest.warns(UnfinishedPublicationWarning, match=r"run it again, .*: logdex recover '") as told:
        open_it(root / below, **SETTINGS).close()
    assert len(told) == 1


@pytest.mark.parametrize("folder", ["commitlog", "consumequeue"])
def test_a_file_of_the_store_tells_of_it_if_it_is_changed(folder: str, source: Path, tmp_path: Path) -> None:
    """A rebuild leaves the CommitLog as it is, and a recovery does not."""
    told = "was killed while it published"
    for name in ("rebuild", "recover"):
        *_, at = kills(name, source, tmp_path / "work", FaultEnv)
        root = killed(name, at, source, tmp_path / "work")
        path = next(each for each in sorted(root.glob(f"{folder}/**/{0:020d}")) if each.is_file())
        done = run("cat", path, *FLAGS, "--limit", 1)
        assert (told in done.stderr) == (folder == "consumequeue" or name == "recover"), (name, done)


def test_what_another_program_puts_into_a_journal_is_no_journal(source: Path, tmp_path: Path) -> None:
    root = start(source, tmp_path)
    journal = Journal("logdex rebuild", ".", ".logdex-staging-1", steps=[Step("put", "index")])
    for odd in (5, None, ["rm"]):
        journal.command = odd  # type: ignore[assignment]
        (root / LOCK_NAME).write_bytes(journal.to_bytes())
        with pytest.raises(CorruptError, match="a command that cannot be"):
            read_journal(str(root), Env())
        assert "cannot be" not in run("cat", root, "--limit", 1).stderr
