"""Recovering small stores: what is taken over, what is told, what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from logdex.errors import EnvironmentProblem, UsageError
from logdex.io.env import Env
from logdex.io.process_lock import take_lock
from logdex.layout.rocketmq import BLANK
from logdex.rocketmq.files.checkpoint import StoreCheckpoint
from logdex.rocketmq.message.stored_message import decode_message
from logdex.rocketmq.rebuild import rebuild
from logdex.rocketmq.recognise.lost_end import RESTORE_LAST_FILE
from logdex.rocketmq.recover import RecoverReport, recover
from logdex.rocketmq.recover import source as sources
from logdex.rocketmq.snapshot.overview import overview
from logdex.rocketmq.verify import verify
from logdex.testing import BadSectorsEnv
from logdex.testing.store_builder import write_commit_log
from tests.crash.trees import tree
from tests.unit.rocketmq.small_stores import CONFIG, FILE_SIZE, MESSAGES, build, message, opened

SECOND = f"{FILE_SIZE:020d}"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A store of several files whose log goes on to the end of the last one but one."""
    return build(tmp_path / "store", MESSAGES)


def recovered(root: Path, tmp_path: Path, **options: object) -> RecoverReport:
    return recover(root, tmp_path / "out", CONFIG, sync=False, **options)  # type: ignore[arg-type]


def saved(root: Path) -> list[int]:
    """The queue offsets of the messages that a store serves, in log order."""
    with opened(root) as store:
        return [each.queue_offset for each in store.scan(topic="TopicA")]


def damage(root: Path, number: int, data: bytes = b"\xff" * 60) -> None:
    """Overwrites the beginning of the message with a queue offset."""
    with opened(root) as store:
        (found,) = (each for each in store.scan(topic="TopicA") if each.queue_offset == number)
    path = root / "commitlog" / f"{found.physical_offset // FILE_SIZE * FILE_SIZE:020d}"
    at = found.physical_offset % FILE_SIZE
    old = path.read_bytes()
    path.write_bytes(old[:at] + data + old[at + len(data) :])


def clean(out: Path) -> bool:
    return [str(each) for each in verify(str(out), CONFIG).findings] == []


def test_a_damaged_message_is_all_that_is_lost(root: Path, tmp_path: Path) -> None:
    damage(root, 7)
    report = recovered(root, tmp_path)
    assert saved(tmp_path / "out") == [number for number in range(40) if number != 7]
    (lost,) = report.skipped
    assert (lost.path, lost.placeholders, lost.is_loss) == (str(root / "commitlog" / f"{0:020d}"), 1, True)
    assert lost.end - lost.start == report.skipped_bytes
    assert (report.messages, report.placeholders, report.lossy, report.index_files > 0) == (39, 1, True, True)
    assert report.bytes == sum(path.stat().st_size for path in (root / "commitlog").iterdir())
    assert report.files == sum(path.is_file() for path in (tmp_path / "out").rglob("*"))
    assert clean(tmp_path / "out")


def test_a_queue_is_served_behind_a_gap_by_one_call(root: Path, tmp_path: Path) -> None:
    damage(root, 3)
    recovered(root, tmp_path)
    with opened(tmp_path / "out") as store:
        found = store.get_message("TopicA", queue_id=0, offset=0, max_count=10).messages
    assert [each.queue_offset for each in found] == [0, 1, 2, 4, 5, 6, 7, 8, 9, 10]


def test_a_missing_file_becomes_placeholders(root: Path, tmp_path: Path) -> None:
    with opened(root) as store:
        kept = [each.queue_offset for each in store.scan() if each.physical_offset // FILE_SIZE != 1]
    (root / "commitlog" / SECOND).unlink()
    report = recovered(root, tmp_path)
    assert saved(tmp_path / "out") == kept
    assert [(each.path, each.why) for each in report.skipped] == [
        (str(root / "commitlog" / SECOND), "the file is missing")
    ]
    assert clean(tmp_path / "out")


def test_files_far_away_are_named_and_left(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "MISSING_FILES_MAX", 3)
    last = max((root / "commitlog").iterdir())
    far = root / "commitlog" / f"{int(last.name) + 5 * FILE_SIZE:020d}"
    odd = root / "commitlog" / f"{77:020d}"
    far.write_bytes(last.read_bytes())
    odd.write_bytes(bytes(FILE_SIZE))
    (root / "commitlog" / "notes.txt").write_text("x")
    report = recovered(root, tmp_path)
    assert saved(tmp_path / "out") == list(range(40))
    told = {each.path: (each.is_loss, each.why) for each in report.skipped}
    why = "by its name this is no file of the log"
    assert told == {str(far): (True, why), str(odd): (False, why)}
    assert any("notes.txt is no file of the log" in note for note in report.notes)


def test_a_file_far_before_the_log_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "MISSING_FILES_MAX", 3)
    root = build(tmp_path / "store", MESSAGES, start_offset=9 * FILE_SIZE)
    odd = root / "commitlog" / f"{FILE_SIZE:020d}"
    odd.write_bytes(b"\1" * FILE_SIZE)
    report = recovered(root, tmp_path)
    assert [(each.path, each.is_loss) for each in report.skipped] == [(str(odd), True)]
    assert saved(tmp_path / "out") == list(range(40))


def test_an_unreadable_sector_is_a_range_like_any(tmp_path: Path) -> None:
    root, config = tmp_path / "store", replace(CONFIG, mapped_file_size_commit_log=16384)
    many = [message(number, body=bytes([number]) * 200) for number in range(60)]
    write_commit_log(str(root), many, 16384)
    rebuild(root, root, config, in_place=True, sync=False)
    env = BadSectorsEnv({str(root / "commitlog" / f"{0:020d}"): [(4096, 4608)]})
    report = recover(root, tmp_path / "out", config, sync=False, env=env)
    with opened(tmp_path / "out", config) as store:
        kept = [each.queue_offset for each in store.scan(topic="TopicA")]
    lost = sorted({*range(60)} - {*kept})
    assert lost == list(range(lost[0], lost[-1] + 1))
    assert 10 <= len(lost) <= 15
    (told,) = report.skipped
    assert ("cannot be read" in told.why, told.placeholders) == (True, 1)
    with opened(root, config) as store:
        gone = [each for each in store.scan(topic="TopicA") if each.queue_offset in lost]
    assert (told.start, told.end) == (gone[0].physical_offset, gone[-1].physical_offset + gone[-1].size_bytes)
    assert told.start <= 4096 < 8192 <= told.end


def test_a_file_that_shrinks_while_it_is_copied(root: Path, tmp_path: Path) -> None:
    class Shrinking(Env):
        def make_dirs(self, path: str) -> None:
            if path.endswith("commitlog"):
                (root / "commitlog" / f"{0:020d}").write_bytes(b"")
            super().make_dirs(path)

    report = recovered(root, tmp_path, env=Shrinking())
    (lost,) = report.skipped
    assert (lost.start, lost.end, lost.is_loss) == (0, FILE_SIZE, True)
    kept = saved(tmp_path / "out")
    assert kept == list(range(kept[0], 40))
    assert clean(tmp_path / "out")


def test_harmed_fillers_are_no_loss(root: Path, tmp_path: Path) -> None:
    with opened(root) as store:
        ends = [each.physical_offset + each.size_bytes for each in store.scan()]
    paths = sorted((root / "commitlog").iterdir())
    for path, change in zip(paths, (b"\0\0\0\1", b"xxxx"), strict=False):
        data = bytearray(path.read_bytes())
        at = max(end for end in ends if end < int(path.name) + FILE_SIZE) - int(path.name)
        at += 0 if change[0] == 0 else 4
        data[at : at + 4] = change
        path.write_bytes(data)
    report = recovered(root, tmp_path)
    assert (saved(tmp_path / "out"), report.lossy, report.skipped) == (list(range(40)), False, [])
    assert clean(tmp_path / "out")


def test_old_bytes_behind_a_filler_are_not_copied(root: Path, tmp_path: Path) -> None:
    path = root / "commitlog" / f"{0:020d}"
    data = path.read_bytes()
    at = len(data.rstrip(b"\0"))
    path.write_bytes(data[:at] + b"old bytes".ljust(FILE_SIZE - at, b"!"))
    report = recovered(root, tmp_path)
    assert not report.lossy
    assert (tmp_path / "out" / "commitlog" / path.name).read_bytes() == data


def test_a_torn_tail_is_cut(root: Path, tmp_path: Path) -> None:
    damage(root, 39, bytes(40))
    report = recovered(root, tmp_path)
    assert saved(tmp_path / "out") == list(range(39))
    assert [(each.placeholders, each.is_loss) for each in report.skipped] == [(0, True)]
    newest = max((tmp_path / "out" / "commitlog").iterdir()).read_bytes()
    assert not any(newest[report.end_offset % FILE_SIZE :])


@pytest.mark.parametrize("is_removed", [False, True], ids=["emptied", "removed"])
@pytest.mark.parametrize("was_killed", [False, True], ids=["closed", "killed"])
def test_a_lost_end_of_which_the_index_tells(is_removed: bool, was_killed: bool, root: Path, tmp_path: Path) -> None:
    """What a killed broker had not written to disk is no damage of the files."""
    with opened(root) as store:
        last = max(each.physical_offset for each in store.scan())
    assert not recovered(root, tmp_path / "sound").lossy
    for path in (root / "commitlog").iterdir():
        if int(path.name) >= last // FILE_SIZE * FILE_SIZE:
            path.write_bytes(b"")
            if is_removed:
                path.unlink()
    if was_killed:
        (root / "abort").write_text("1")
    report = recovered(root, tmp_path)
    assert report.lossy is not was_killed
    by_index, by_queue = report.notes if was_killed else report.losses
    assert f"keys of messages up to physical offset {last}, and the log ends at {report.end_offset}" in by_index
    assert f"behind the log's end at {report.end_offset}, up to physical offset {last}" in by_queue


@pytest.mark.parametrize(
    ("flushed", "losses", "notes"), [("later", 2, 0), ("no checkpoint", 1, 0), ("damaged", 1, 0), ("then", 0, 1)]
)
def test_a_lost_end_of_which_no_index_tells(flushed: str, losses: int, notes: int, root: Path, tmp_path: Path) -> None:
    """A checkpoint that tells of no later message vouches for a cut by a recovery."""
    with opened(root) as store:
        times = {each.physical_offset // FILE_SIZE: each.store_timestamp_ms for each in store.scan()}
    newest = max((root / "commitlog").iterdir())
    newest.unlink()
    for path in (root / "index").iterdir():
        path.unlink()
    if flushed != "no checkpoint":
        number = int(newest.name) // FILE_SIZE - (flushed == "then")
        point = StoreCheckpoint(physic_msg_timestamp_ms=times[number]).pack()
        (root / "checkpoint").write_bytes(point[:7] if flushed == "damaged" else point)
    report = recovered(root, tmp_path)
    assert (len(report.losses), len(report.notes), report.lossy) == (losses, notes, losses > 0)
    assert "point behind the log's end" in [*report.losses, *report.notes][-1]
    assert [("was flushed" in each) for each in report.losses] == [True, False][2 - losses :]
    look = overview(str(root), CONFIG)
    assert len([each for each in look.problems if each.endswith(RESTORE_LAST_FILE)]) == losses
    found = verify(root, CONFIG)
    mends = [each.mend for each in found.findings if each.check == "checkpoint-time"]
    assert ["restore the log's last file first" in mend for mend in mends] == [True] * (flushed == "later")
    assert any("last file may be cut" in each.message for each in found.infos)


def test_a_lost_end_behind_a_torn_message(root: Path, tmp_path: Path) -> None:
    """The torn message hides no messages of files that are missing."""
    *_, torn, last = sorted((root / "commitlog").iterdir())
    last.unlink()
    torn.write_bytes(torn.read_bytes()[: -FILE_SIZE // 4].ljust(FILE_SIZE, b"\0"))
    [damage] = verify(root, CONFIG).findings[:1]
    assert damage.check == "torn-tail"
    report = recovered(root, tmp_path)
    [told, _by_queue] = report.losses
    assert told.endswith("the log's last messages are lost, unless there is a copy of their file")
    mends = {each.mend for each in verify(root, CONFIG).findings if each.check == "index-extra-entry"}
    assert [mend.partition("; ")[2] for mend in mends] == [
        "if the log's last file was cut or removed, restore it instead"
    ]


def test_a_message_that_lies_elsewhere_by_its_own_word_is_none_of_the_log(root: Path, tmp_path: Path) -> None:
    path = root / "commitlog" / f"{0:020d}"
    data = bytearray(path.read_bytes())
    size = decode_message(bytes(data))[1]
    data[size + 28 : size + 36] = (12345).to_bytes(8, "big")
    path.write_bytes(data)
    report = recovered(root, tmp_path)
    assert saved(tmp_path / "out") == [number for number in range(40) if number != 1]
    assert [each.why for each in report.skipped] == ["a message that says that it lies elsewhere"]


def test_a_clean_store_comes_out(root: Path, tmp_path: Path) -> None:
    (root / "config").mkdir()
    (root / "config" / "topics.json").write_text('{"dataVersion":{},"topicConfigTable":{"TopicA":{}}}')
    (root / "config" / "consumerOffset.json").write_text('{"offsetTable":{"TopicA@G":{0:7')
    (root / "config" / "consumerOffset.json.bak").write_text('{"offsetTable":{"TopicA@G":{0:6}}}')
    (root / "config" / "folder").mkdir()
    (root / "abort").write_text("77")
    (root / "lock").write_text("lock")
    (root / "timerlog").mkdir()
    (root / "timerlog" / "x").write_text("x")
    (root / "rocksdbstore").mkdir()
    old = StoreCheckpoint(1, 2, 3, 4, 1 << 40, 6)
    (root / "checkpoint").write_bytes(old.pack())
    damage(root, 7)
    report = recovered(root, tmp_path)
    out = tmp_path / "out"
    assert sorted(path.name for path in out.iterdir()) == ["checkpoint", "commitlog", "config", "consumequeue", "index"]
    assert sorted(path.name for path in (out / "config").iterdir()) == ["consumerOffset.json.bak", "topics.json"]
    with opened(out) as store:
        last = [*store.scan()][-1]
    made = StoreCheckpoint.read(out / "checkpoint")
    assert made == StoreCheckpoint(
        *(last.store_timestamp_ms, last.store_timestamp_ms, last.store_timestamp_ms),
        *(4, report.end_offset, last.physical_offset),
    )
    told = "\n".join(report.notes)
    assert "consumerOffset.json" in told
    assert "folder is no file" in told
    assert f"{root}/timerlog: not taken over" in told
    assert "rocksdbstore" not in told
    assert clean(out)


def test_one_commit_log_file(root: Path, tmp_path: Path) -> None:
    damage(root, 7)
    report = recover(root / "commitlog" / f"{0:020d}", tmp_path / "out", CONFIG, sync=False)
    assert report.lossy
    with opened(root) as store:
        in_file = [each.queue_offset for each in store.scan() if each.physical_offset < FILE_SIZE]
    assert set(saved(tmp_path / "out")) >= set(in_file[:7])
    assert 7 not in saved(tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "checkpoint",
        "commitlog",
        "consumequeue",
        "index",
    ]
    with pytest.raises(UsageError, match="--in-place needs a store"):
        recover(root / "commitlog" / SECOND, root, CONFIG, in_place=True)


def test_a_log_without_a_message(tmp_path: Path) -> None:
    for name, data, lossy in (("empty", b"", False), ("zeros", bytes(FILE_SIZE), False), ("junk", b"j" * 99, True)):
        root = tmp_path / name
        (root / "commitlog").mkdir(parents=True)
        (root / "commitlog" / f"{0:020d}").write_bytes(data)
        report = recover(root, tmp_path / f"{name}-out", CONFIG, sync=False)
        assert (report.messages, report.lossy, report.end_offset) == (0, lossy, 0)
        assert (tmp_path / f"{name}-out" / "commitlog" / f"{0:020d}").read_bytes() == bytes(FILE_SIZE)
        assert clean(tmp_path / f"{name}-out")


def test_in_place_keeps_what_it_replaces_and_takes_abort_away(root: Path, tmp_path: Path) -> None:
    damage(root, 7)
    (root / "abort").write_text("77")
    before = tree(root)
    elsewhere = recovered(root, tmp_path)
    report = recover(root, root, CONFIG, in_place=True, sync=False)
    assert sorted(report.kept) == ["abort", "commitlog", "consumequeue", "index"]
    assert not (root / "abort").exists()
    for name in ("commitlog", "consumequeue", "index", "checkpoint"):
        assert tree(root / name) == tree(tmp_path / "out" / name) if name != "checkpoint" else True
    for name, kept in report.kept.items():
        if name != "abort":
            old = {path.removeprefix(f"{name}/"): data for path, data in before.items() if path.startswith(f"{name}/")}
            assert tree(Path(kept)) == old
    assert [each.placeholders for each in report.skipped] == [each.placeholders for each in elsewhere.skipped]
    again = recover(root, root, CONFIG, in_place=True, sync=False)
    assert not again.lossy


def test_refusals(root: Path, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").write_text("x")
    with pytest.raises(UsageError, match="is not empty"):
        recover(root, tmp_path / "full", CONFIG)
    with pytest.raises(UsageError, match="lies in"):
        recover(root, root / "out", CONFIG)
    elsewhere = replace(CONFIG, store_path_commit_log=str(root / "commitlog"))
    with pytest.raises(UsageError, match="the log lies in"):
        recover(root, root, elsewhere, in_place=True)

    class Full(Env):
        def free_bytes(self, path: str) -> int:
            return 1000

    with pytest.raises(EnvironmentProblem):
        recovered(root, tmp_path, env=Full())
    assert not (tmp_path / "out").exists()


def test_a_store_in_use(root: Path, tmp_path: Path) -> None:
    (root / "lock").write_text("lock")
    lock = take_lock(str(root / "lock"), env=Env())
    with lock:  # type: ignore[union-attr]
        with pytest.raises(UsageError, match="this process writes into this store"):
            recover(root, root, CONFIG, in_place=True)
        report = recovered(root, tmp_path)
    assert any("its log may go on meanwhile" in note for note in report.notes)


def test_progress_and_the_report_as_json(root: Path, tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    damage(root, 7)
    report = recovered(root, tmp_path, progress=lambda messages, size: seen.append((messages, size)))
    assert seen == sorted(seen)
    assert seen[-1][0] == report.messages
    made = report.to_json()
    assert (made["engine"], made["lossy"], made["placeholders"]) == ("local", True, 1)
    (lost,) = report.skipped
    assert lost.to_json()["kind"] == "skipped"
    assert "one placeholder message is in their place" in str(lost)


def test_the_smallest_filler(tmp_path: Path) -> None:
    """The filler that a placeholder leaves room for at the end of a file."""
    root = build(tmp_path / "store", MESSAGES)
    path = root / "commitlog" / f"{0:020d}"
    path.write_bytes(bytes(FILE_SIZE))
    recovered(root, tmp_path)
    data = (tmp_path / "out" / "commitlog" / path.name).read_bytes()
    assert BLANK.struct.unpack(data[-8:])[0] == 8
    first, size = decode_message(data)
    assert (first.topic, size) == (b"LOGDEX_LOST", FILE_SIZE - 8)
