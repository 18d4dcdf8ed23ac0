"""Stores in which something else stands where a file is expected: a directory, a FIFO, a link that
leads nowhere. It is named, nothing waits for it, and no answer without it is called complete."""

from __future__ import annotations

import errno
import itertools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from logdex.errors import StorageError, UnusableFileError
from logdex.io.env import Env, ReadFile
from logdex.rocketmq import Message, MessageStore
from logdex.rocketmq.consume_queue.consume_queue import ConsumeQueue
from logdex.rocketmq.recover import recover
from logdex.rocketmq.verify import verify
from tests.cli.helpers import run, run_json
from tests.examples import cases
from tests.unit.rocketmq.small_stores import CONFIG, FILE_SIZE, MESSAGES, build, numbers, opened

MAKE: dict[str, Callable[[Path], Any]] = {
    "a folder": Path.mkdir,
    "a FIFO": os.mkfifo,
    "a loop": lambda path: path.symlink_to(path.name),
    "a dangling link": lambda path: path.symlink_to("nowhere"),
    "a link through a file": lambda path: path.symlink_to("../lock/x"),
}
READ = {0: [*range(15, 40)], FILE_SIZE: [*range(15), *range(30, 40)], 2 * FILE_SIZE: [*range(30)]}
"""The messages that the other files have, by the start of the file that is none."""
CASES = cases(itertools.product(READ, MAKE), 4)


def harmed(root: Path, name: str, make: str) -> Path:
    build(root, MESSAGES)
    (root / "lock").touch()
    (root / name).unlink(missing_ok=True)
    MAKE[make](root / name)
    return root / name


@pytest.mark.parametrize(("start", "make"), CASES)
def test_what_is_no_file_of_the_log_is_a_loss(tmp_path: Path, start: int, make: str) -> None:
    root = tmp_path / "store"
    path = harmed(root, f"commitlog/{start:020d}", make)
    report = verify(str(root), CONFIG)
    assert [(finding.check, finding.path) for finding in report.findings] == [("unreadable", str(path))]
    assert report.findings[0].mend
    assert report.messages == len(READ[start])

    rebuilt = run("rebuild", root, "-o", tmp_path / "rebuilt", "--no-sync")
    assert rebuilt.exit_code == 3, rebuilt
    assert str(path) in rebuilt.stderr
    queue = ConsumeQueue(str(tmp_path / "rebuilt" / "consumequeue" / "TopicA" / "0"), b"TopicA", 0)
    assert queue.max_offset == (15 if start == FILE_SIZE else READ[start][-1] + 1)

    recovered = run("recover", root, "-o", tmp_path / "recovered", "--no-sync")
    assert recovered.exit_code == 3, recovered
    assert str(path) in recovered.stdout
    assert (start != FILE_SIZE) == ("1 file of unknown size" in recovered.stdout), recovered.stdout
    with opened(tmp_path / "recovered") as store:
        assert numbers(message for message in store.scan() if message.topic == b"TopicA") == READ[start]


@pytest.mark.parametrize(("start", "make"), CASES)
def test_no_answer_without_a_file_of_the_log_is_complete(tmp_path: Path, start: int, make: str) -> None:
    root = tmp_path / "store"
    path = str(harmed(root, f"commitlog/{start:020d}", make))
    for words in (["cat"], ["info"], ["query", "--topic", "TopicA", "--key", "hot", "--scan-missing"]):
        told = run(words[0], root, *words[1:])
        assert told.exit_code == 1, told
        assert path in told.stderr
    assert run_json("export", root, "-o", tmp_path / "out", exit_code=3)[-1]["messages"] == len(READ[start])
    with pytest.raises(UnusableFileError, match=path):
        MessageStore.open(root, mapped_file_size_commit_log=FILE_SIZE, mapped_file_size_consume_queue=320)


def test_a_log_without_any_file(tmp_path: Path) -> None:
    root = tmp_path / "store"
    build(root, MESSAGES[:3])
    path = harmed(tmp_path / "other", f"commitlog/{0:020d}", "a FIFO")
    path.rename(root / "commitlog" / path.name)
    assert [finding.check for finding in verify(str(root), CONFIG).findings] == ["unreadable"]
    for name in ("rebuild", "recover"):
        told = run(name, root, "-o", tmp_path / name)
        assert told.exit_code == 2
        assert "not a regular file" in told.stderr


def test_a_range_that_is_in_no_file_is_not_searched(tmp_path: Path) -> None:
    root = build(tmp_path / "store", MESSAGES)
    (root / "commitlog" / f"{FILE_SIZE:020d}").unlink()
    with opened(root) as store:
        answer = store.query_message("TopicA", "hot", scan_missing=True)
    assert not answer.complete
    assert f"offsets {FILE_SIZE} to" in str(answer.unreadable[0])


@pytest.mark.parametrize(("number", "make"), cases(itertools.product((0, 1, 2), MAKE), 6))
def test_what_is_no_file_of_a_queue(tmp_path: Path, number: int, make: str) -> None:
    root = tmp_path / "store"
    path = str(harmed(root, f"consumequeue/TopicA/0/{320 * number:020d}", make))
    places = {finding.path for finding in verify(str(root), CONFIG).findings if finding.check == "unreadable"}
    assert places == {path}
    for words in (["info"], ["get", "--topic", "TopicA", "--queue", "0", "--offset", "0"]):
        told = run(words[0], root, *words[1:])
        assert told.exit_code in (1, 2), told
        assert path in told.stderr
    with opened(root) as store:
        assert numbers(store.scan()) == [*range(40)]
    with pytest.raises(UnusableFileError, match=path):
        MessageStore.open(root, mapped_file_size_commit_log=FILE_SIZE, mapped_file_size_consume_queue=320)
    assert run("rebuild", root, "--in-place", "--no-sync").exit_code == 0
    assert not verify(str(root), CONFIG).findings


@pytest.mark.parametrize("make", [Path.touch, lambda path: path.symlink_to("nowhere")], ids=["file", "link"])
@pytest.mark.parametrize("name", ["consumequeue", "consumequeue/TopicA", "consumequeue/TopicA/0", "index", "config"])
def test_verify_names_what_is_no_directory(tmp_path: Path, name: str, make: Callable[[Path], None]) -> None:
    root = build(tmp_path / "store", MESSAGES[:2])
    (root / "config").mkdir()
    (root / name).rename(tmp_path / "away")
    make(root / name)
    found = [finding.path for finding in verify(str(root), CONFIG).findings]
    assert any(path == str(root / name) or path.startswith(f"{root / name}/") for path in found), found


SMALL = ("checkpoint", "abort", "lock", "config/topics.json", "config/delayOffset.json")
FOLDERS = ("config", "index", "consumequeue")


@pytest.mark.parametrize(("name", "make"), cases(itertools.product((*SMALL, *FOLDERS), MAKE), 9))
def test_a_store_is_not_opened_for_writing_with_what_is_no_file_of_it(tmp_path: Path, name: str, make: str) -> None:
    root = build(tmp_path / "store", MESSAGES[:2])
    if name in FOLDERS and make == "a folder":
        return
    (root / name).parent.mkdir(exist_ok=True)
    if (root / name).exists():
        (root / name).rename(tmp_path / "away")
    MAKE[make](root / name)
    creates = name in ("abort", "lock") and make == "a dangling link"  # a link to a file that is not there yet
    before = sorted(root.rglob("*"))
    if creates:
        MessageStore.open(root, mapped_file_size_commit_log=FILE_SIZE, mapped_file_size_consume_queue=320).close()
        return
    where = tmp_path if name == "lock" else root / name  # a lock is taken on what a link leads to
    with pytest.raises(StorageError, match=f"^{where}"):
        MessageStore.open(root, mapped_file_size_commit_log=FILE_SIZE, mapped_file_size_consume_queue=320)
    made = {root / "lock", *(root / each for each in FOLDERS if name == "abort" or each < name)}
    assert set(root.rglob("*")) - set(before) <= made


@pytest.mark.parametrize("make", [Path.touch, os.mkfifo], ids=["a file", "a FIFO"])
def test_what_has_the_name_of_a_topics_folder_is_found_before_anything_is_written(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    root = tmp_path / "store"
    sizes: Any = {"mapped_file_size_commit_log": FILE_SIZE, "mapped_file_size_consume_queue": 320}
    with MessageStore.open(root, **sizes) as store:
        store.put_message(Message("TopicA"))
    (root / "consumequeue/TopicA").rename(tmp_path / "away")
    make(root / "consumequeue/TopicA")
    (root / "consumequeue/of no topic").touch()
    with pytest.raises(StorageError, match=f"{root}/consumequeue/TopicA: not a directory"):
        MessageStore.open(root, **sizes)
    assert not (root / "abort").exists()
    (root / "consumequeue/TopicA").unlink()
    MessageStore.open(root, **sizes).close()


def test_what_has_the_name_of_a_temporary_file_stays(tmp_path: Path) -> None:
    root = build(tmp_path / "store", MESSAGES[:2])
    (root / "config").mkdir()
    os.mkfifo(root / "config/topics.json.tmp")
    with pytest.raises(UnusableFileError, match=r"topics\.json\.tmp: a FIFO, not a regular file"):
        MessageStore.open(root, mapped_file_size_commit_log=FILE_SIZE, mapped_file_size_consume_queue=320)
    assert (root / "config/topics.json.tmp").is_fifo()


@pytest.mark.parametrize("make", cases(MAKE, 2))
def test_what_is_no_index_file(tmp_path: Path, make: str) -> None:
    root = build(tmp_path / "store", MESSAGES)
    path = sorted((root / "index").iterdir())[1]
    path.unlink()
    MAKE[make](path)
    unreadable = [finding.path for finding in verify(str(root), CONFIG).findings if finding.check == "unreadable"]
    assert unreadable == [str(path)]
    told = run("info", root)
    assert told.exit_code == 1
    assert str(path) in told.stderr
    assert run("query", root, "--topic", "TopicA", "--key", "hot").exit_code == 1
    before = sorted(root.rglob("*"))
    with pytest.raises(UnusableFileError, match=str(path)):
        MessageStore.open(root, mapped_file_size_commit_log=FILE_SIZE, mapped_file_size_consume_queue=320)
    assert set(root.rglob("*")) - set(before) <= {root / "lock"}
    assert run("rebuild", root, "--in-place", "--no-sync").exit_code == 0
    assert not verify(str(root), CONFIG).findings


def test_an_abort_that_is_far_too_long_hides_nothing(tmp_path: Path) -> None:
    root = build(tmp_path / "store", MESSAGES[:2])
    (root / "abort").write_bytes(bytes(100_000))
    told = run("info", root)
    assert (told.exit_code, "commitlog" in told.stdout.lower()) == (1, True), told
    assert f"{root}/abort" in told.stderr


def test_a_lock_that_may_not_be_read_is_no_reason_to_stop(tmp_path: Path) -> None:
    root = build(tmp_path / "store", MESSAGES[:2])
    for name in ("lock", "abort"):
        (root / name).touch()

    class Refusing(Env):
        """Refuses to open the lock, as for another user's file."""

        def open_read(self, path: str) -> ReadFile:
            if path.endswith("/lock"):
                raise StorageError("permission denied", path=path, errno=errno.EACCES)
            return super().open_read(path)

    assert not verify(str(root), CONFIG, env=Refusing()).findings
    assert not recover(root, tmp_path / "out", CONFIG, sync=False, env=Refusing()).lossy


LOADED = ("commitlog", "consumequeue/TopicA/0")


@pytest.mark.parametrize("folder", LOADED)
def test_names_on_which_no_broker_starts_are_findings(folder: str, tmp_path: Path) -> None:
    root = build(tmp_path / "store", MESSAGES)
    sound = run("cat", root, "--json").stdout
    names = ("topics.json~", ".nfs0001", "-rf", "0000", "99999999999999999999.bak", "a\nb", "x" * 255)
    for name in names:
        (root / folder / name).write_bytes(b"stray")
    (root / folder / "y").touch()  # a broker removes the last file if it is empty
    findings = verify(str(root), CONFIG).findings
    assert {each.path for each in findings} == {f"{root}/{folder}/{name}" for name in names}
    assert {each.check.partition("-other-")[2] for each in findings} == {"file"}
    assert run("cat", root, "--json").stdout == sound
    assert run("info", root).exit_code == 0


def test_names_that_no_broker_gives_change_no_answer(tmp_path: Path) -> None:
    """In the directories of the log and of a queue, a broker does not start on such a file."""
    root = build(tmp_path / "store", MESSAGES)
    sound = run("cat", root, "--json").stdout
    for folder in ("", "commitlog", "consumequeue", "consumequeue/TopicA", "consumequeue/TopicA/0", "index", "config"):
        for name in ("topics.json~", ".nfs0001", "-rf", "0000", "99999999999999999999.bak", "a\nb", "x" * 255):
            (root / folder).mkdir(exist_ok=True)
            if folder not in LOADED:
                (root / folder / name).write_bytes(b"stray")
        for name in ("lost+found", "007", "\u0660", "2147483648"):
            (root / folder / name).mkdir()
    assert not verify(str(root), CONFIG).findings
    assert run("cat", root, "--json").stdout == sound
    assert run("info", root).exit_code == 0


def test_the_header_of_no_index_file_is_not_added_up(tmp_path: Path) -> None:
    root = build(tmp_path / "store", MESSAGES[:2])
    (root / "index" / "99991231000000000").write_bytes(b"\x7f" * 100)
    told = run("info", root)
    assert told.exit_code == 1
    assert "index/99991231000000000: byte 36: the header of this IndexFile cannot be" in told.stderr
    assert "IndexFiles     1 file, " in told.stdout
