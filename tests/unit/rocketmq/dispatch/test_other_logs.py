"""A log that is no longer the one that was dispatched: removed, cut, begun anew, with other topics,
after kills."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from logdex.jobs.tasks import LocalRunner
from logdex.rocketmq.dispatch.job import Dispatcher
from logdex.rocketmq.message_store.message_store import MessageStore
from logdex.rocketmq.message_store.put.message import Message
from logdex.testing.fault_env import Fault, FaultEnv, Killed
from tests.unit.rocketmq.dispatch.growing import CONFIG, SIZES, files_of, grow, require_found, require_rebuilt


def dispatch(store: Path, output: Path) -> Dispatcher:
    """One run, until the end of the log."""
    with Dispatcher(store, output, CONFIG) as job:
        job.step()
    return job


def killed_at_each(store: Path, output: Path, *, first: int, step: int) -> Iterator[Path]:
    """Kills a run at every `step`-th operation, each time in a copy of the output, which it
    yields."""
    at, was_killed = first, True
    while was_killed:
        copy = output.with_name(f"{output.name}-{at}")
        shutil.copytree(output, copy)
        env = FaultEnv(str(copy), Fault(at))
        try:
            with Dispatcher(store, copy, CONFIG, env=env) as job:
                job.step()
            was_killed = False
        except Killed:
            pass
        env.release()
        yield copy
        shutil.rmtree(copy)
        at += step


def break_off(store: Path, output: Path) -> Dispatcher:
    """A run that ends without completing its files, as one that is killed at its end."""
    job = Dispatcher(store, output, CONFIG)
    job.step()
    job._output.abandon()
    return job


def remove_files_before(store: Path, offset: int) -> int:
    """Removes files of the log as a broker's retention does. Returns the offset at which the log
    begins."""
    for path in sorted((store / "commitlog").iterdir()):
        if int(path.name) + 4096 <= offset:
            path.unlink()
    return int(min((store / "commitlog").iterdir()).name)


@pytest.mark.parametrize("files", [3, *(pytest.param(files, marks=pytest.mark.slow) for files in (1, 100))])
def test_old_files_are_removed_after_a_kill(tmp_path: Path, files: int) -> None:
    """The IndexFile that was not full is derived again, from fewer messages; all that are left are
    found."""
    store, output = tmp_path / "store", tmp_path / "out"
    for turn in range(2):
        grow(store, 60, turn)
        break_off(store, output)
    grow(store, 10, 9)
    position = break_off(store, output).report.end_offset
    begin = remove_files_before(store, min(4096 * files, position))
    assert 0 < begin <= position
    dispatch(store, output)
    require_found(store, output, tmp_path / "rebuilt")
    grow(store, 20, 10)
    dispatch(store, output)
    require_found(store, output, tmp_path / "rebuilt")


@pytest.mark.parametrize("step", [31, pytest.param(2, marks=pytest.mark.slow)])
def test_killed_before_it_begins_from_the_start(tmp_path: Path, step: int) -> None:
    """The log begins behind the position; what the output has for the messages before is removed,
    whenever the run is killed meanwhile."""
    store, output = tmp_path / "store", tmp_path / "out"
    grow(store, 40, 1)
    position = dispatch(store, output).report.end_offset
    grow(store, 40, 2)
    remove_files_before(store, position + 8192)
    for copy in killed_at_each(store, output, first=17, step=step):
        dispatch(store, copy)
        require_rebuilt(store, copy, tmp_path / "rebuilt")


def test_old_files_are_removed_faster_than_it_follows(tmp_path: Path) -> None:
    """While a run follows, the log comes to begin behind its position: as between two runs."""
    store, output = tmp_path / "store", tmp_path / "out"
    grow(store, 40, 1)
    with Dispatcher(store, output, CONFIG) as job:
        job.step()
        grow(store, 60, 2)
        assert remove_files_before(store, job.report.end_offset + 8192) > job.report.end_offset
        job.step()
        assert "begins behind" in job.report.notes[0]
    require_rebuilt(store, output, tmp_path / "rebuilt")


@pytest.mark.parametrize("on_runner", [False, True])
def test_old_files_are_removed_during_a_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, on_runner: bool) -> None:
    """They are removed after the step has listed them."""
    store, output, begins = tmp_path / "store", tmp_path / "out", list[int]()
    grow(store, 40, 1)
    position = dispatch(store, output).report.end_offset
    grow(store, 60, 2)
    look = Dispatcher._require_same_log

    def then_remove(self: Dispatcher) -> None:
        look(self)
        if not begins:
            begins.append(remove_files_before(store, position + 8192))

    monkeypatch.setattr(Dispatcher, "_require_same_log", then_remove)
    with Dispatcher(store, output, CONFIG) as job:
        job.step(LocalRunner() if on_runner else None, part_size_bytes=700)
    assert begins[0] > position
    require_rebuilt(store, output, tmp_path / "rebuilt")


def put_equal_bodies(store: Path, tag: str, count: int) -> None:
    with MessageStore.open(store, background=False, **SIZES) as opened:
        for number in range(count):
            assert opened.put_message(Message(topic="t", body=b"body", keys=(f"{number:03d}",), tags=tag)).is_stored


def test_another_log_with_the_same_bodies(tmp_path: Path) -> None:
    """A log is deleted wholly and begun anew, with messages as long as before and with the same
    bodies."""
    store, output = tmp_path / "store", tmp_path / "out"
    put_equal_bodies(store, "a", 30)
    dispatch(store, output)
    shutil.rmtree(store)
    put_equal_bodies(store, "b", 40)
    dispatch(store, output)
    require_rebuilt(store, output, tmp_path / "rebuilt")


def test_a_log_without_messages_is_another_one(tmp_path: Path) -> None:
    """One that began late, and had none, is followed by one that begins at 0."""
    store, output = tmp_path / "store", tmp_path / "out"
    (store / "commitlog").mkdir(parents=True)
    (store / "commitlog" / f"{8192:020d}").write_bytes(bytes(4096))
    dispatch(store, output)
    shutil.rmtree(store)
    grow(store, 60, 1)
    dispatch(store, output)
    require_rebuilt(store, output, tmp_path / "rebuilt")


@pytest.mark.parametrize("seed", [1, 2])
def test_a_log_that_is_shorter(tmp_path: Path, seed: int) -> None:
    store, output = tmp_path / "store", tmp_path / "out"
    grow(store, 50, 1)
    dispatch(store, output)
    shutil.rmtree(store)
    grow(store, 20, seed)
    dispatch(store, output)
    require_rebuilt(store, output, tmp_path / "rebuilt")


# -- topics --------------------------------------------------------------------------------------
def set_topics(store: Path, *names: str) -> None:
    """The broker has these topics; the files of others are gone."""
    (store / "config").mkdir(exist_ok=True)
    for path in (store / "config").glob("topics.json*"):
        path.unlink()
    table = {name: {"topicName": name, "readQueueNums": 4, "writeQueueNums": 4, "perm": 6} for name in names}
    (store / "config" / "topics.json").write_text(json.dumps({"dataVersion": {}, "topicConfigTable": table}))
    for path in [*(store / "consumequeue").iterdir()]:
        if path.name not in names:
            shutil.rmtree(path)


@pytest.mark.parametrize("more", [0, 1, 20])
def test_a_deleted_topic_that_is_made_again(tmp_path: Path, more: int) -> None:
    """A run knows that the topic is deleted, the next one that it is there: with no message since,
    one, or some."""
    store, output = tmp_path / "store", tmp_path / "out"
    grow(store, 40, 1)
    dispatch(store, output)
    set_topics(store, "a")
    dispatch(store, output)
    assert [name for name in files_of(output) if "/b/" in name] == []
    require_rebuilt(store, output, tmp_path / "rebuilt")
    set_topics(store, "a", "b")
    if more:
        grow(store, more, 2)
    dispatch(store, output)
    require_rebuilt(store, output, tmp_path / "rebuilt")


@pytest.mark.parametrize("is_following", [False, True])
def test_a_topic_that_is_known_later_than_its_messages(tmp_path: Path, is_following: bool) -> None:
    """A mirrored CommitLog may have messages of a topic before topics.json has it."""
    store, output = tmp_path / "store", tmp_path / "out"
    grow(store, 40, 1)
    set_topics(store, "a")
    job = Dispatcher(store, output, CONFIG)
    job.step()
    if not is_following:
        job.close()
        job = Dispatcher(store, output, CONFIG)
    set_topics(store, "a", "b")
    with job:
        job.step()
    require_rebuilt(store, output, tmp_path / "rebuilt")


def test_a_topic_that_is_deleted_while_it_is_followed(tmp_path: Path) -> None:
    store, output = tmp_path / "store", tmp_path / "out"
    grow(store, 40, 1)
    with Dispatcher(store, output, CONFIG) as job:
        job.step()
        set_topics(store, "a")
        job.step()
    require_rebuilt(store, output, tmp_path / "rebuilt")


def test_a_topic_that_is_made_while_it_is_followed(tmp_path: Path) -> None:
    """The broker has it in topics.json before its first message, and its ConsumeQueue a little
    later."""
    store, output = tmp_path / "store", tmp_path / "out"
    grow(store, 40, 1)
    set_topics(store, "a")
    with Dispatcher(store, output, CONFIG) as job:
        set_topics(store, "a", "b")
        job.step()
        assert job.report.notes == []
        assert job.report.messages == 40
    require_rebuilt(store, output, tmp_path / "rebuilt")
