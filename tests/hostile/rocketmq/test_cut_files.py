"""Files cut where nothing looks broken, and names that lead nowhere: what is lost is said, the rest
is read."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext, suppress
from pathlib import Path

import pytest

from logdex.errors import CorruptError, GeometryError, LogdexError, UnreadableError
from logdex.layout.rocketmq import SYS_FLAG_COMPRESSED
from logdex.rocketmq import Consumer, Message, MessageStore
from logdex.rocketmq.commit_log.commit_log import CommitLog
from logdex.rocketmq.geometry.resolve import resolve_config
from logdex.rocketmq.message.stored_message import StoredMessage
from logdex.rocketmq.rebuild import rebuild
from logdex.rocketmq.rebuild.parts import WholeLog, join_parts, plan_parts, scan_part
from logdex.rocketmq.scan.scanner import EndKind, LogEnd, Scanner
from logdex.rocketmq.snapshot.overview import overview
from logdex.rocketmq.verify import verify
from tests.cli.helpers import run
from tests.hostile.cutting import ROOT
from tests.unit.rocketmq.message_store.open_stores import open_store, require_sound
from tests.unit.rocketmq.small_stores import CONFIG, FILE_SIZE, MESSAGES, build, message, opened


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return build(tmp_path / "store", MESSAGES)


def files(folder: Path) -> list[Path]:
    return sorted(folder.iterdir())


def cut(path: Path, size: int) -> None:
    path.write_bytes(path.read_bytes()[:size])


def checks(root: Path) -> list[tuple[str, str]]:
    """(check, path below the root) of each finding."""
    return [
        (finding.check, str(Path(finding.path).relative_to(root))) for finding in verify(str(root), CONFIG).findings
    ]


def scanned_end(root: Path) -> LogEnd:
    scanner = Scanner(CONFIG)
    with CommitLog(str(root / "commitlog"), file_size_bytes=FILE_SIZE) as log:
        for _ in scanner.scan(log):
            pass
    assert scanner.end is not None
    return scanner.end


def end_in_parts(root: Path, folder: Path) -> LogEnd:
    folder.mkdir()
    with CommitLog(str(root / "commitlog"), file_size_bytes=FILE_SIZE) as log:
        parts = [part for task in plan_parts(log, FILE_SIZE) for part in task]
        scans = [scan_part(part, CONFIG, str(folder / str(number))) for number, part in enumerate(parts)]
        joined = join_parts(log, scans)
    assert isinstance(joined, WholeLog)
    return joined.end


@pytest.mark.parametrize("place", [0, 1, -1])
def test_a_log_file_cut_between_two_messages_ends_the_log(root: Path, tmp_path: Path, place: int) -> None:
    path = files(root / "commitlog")[place]
    with opened(root) as store:
        inside = [m for m in store.scan() if int(path.name) <= m.physical_offset < int(path.name) + FILE_SIZE]
    offset = inside[2].physical_offset
    cut(path, offset - int(path.name))
    end = scanned_end(root)
    assert (end.kind, end.offset, end.path, end.is_clean) == (EndKind.TORN, offset, str(path), False)
    assert end == end_in_parts(root, tmp_path / "stages")
    report = rebuild(str(root), str(tmp_path / "out"), CONFIG, sync=False)
    assert (report.lossy, report.end_offset) == (True, offset)
    assert ("commit-log-file-size", f"commitlog/{path.name}") in checks(root)
    assert any(str(path) in problem for problem in overview(str(root), CONFIG).problems)


def test_a_last_log_file_that_was_only_just_made_is_a_good_end(root: Path) -> None:
    (root / "commitlog" / f"{FILE_SIZE * len(files(root / 'commitlog')):020d}").write_bytes(b"")
    assert scanned_end(root).is_clean


def test_a_single_log_file_cut_behind_a_message_lacks_its_filler(tmp_path: Path) -> None:
    root = build(tmp_path / "store", MESSAGES[:3])
    with opened(root) as store:
        offset = store.commit_log.read_message(0).size_bytes
    cut(files(root / "commitlog")[0], offset)
    found = run("verify", root, "--json")
    assert found.exit_code == 1
    assert '"check": "filler"' in found.stdout
    assert "without a filler" in run("cat", root).stderr


@pytest.mark.parametrize("size", [1, 7])
def test_a_log_of_a_few_bytes_is_torn_and_no_wrong_flag(root: Path, size: int) -> None:
    for path in files(root / "commitlog")[1:]:
        path.unlink()
    cut(files(root / "commitlog")[0], size)
    result = run("cat", root)
    assert result.exit_code == 1
    assert "torn" in result.stderr


@pytest.mark.parametrize("size", [20, 41, 100])
def test_a_cut_queue_file_shows_no_other_file_size(tmp_path: Path, size: int) -> None:
    root = build(tmp_path / "store", [message(0), message(0, queue_id=1)])
    cut(files(root / "consumequeue" / "TopicA" / "0")[0], size)
    assert resolve_config(str(root)).mapped_file_size_consume_queue == CONFIG.mapped_file_size_consume_queue


def test_an_empty_first_queue_file_is_no_fault_of_the_log(root: Path) -> None:
    path = files(root / "consumequeue" / "TopicA" / "0")[0]
    cut(path, 0)
    assert checks(root) == [("consume-queue-file-size", f"consumequeue/TopicA/0/{path.name}")]


@pytest.mark.parametrize("size", [0, 1, 39, 40, 100, 200, 300])
@pytest.mark.parametrize("place", [0, -1])
def test_a_cut_index_file_shows_no_other_geometry(root: Path, place: int, size: int) -> None:
    cut(files(root / "index")[place], size)
    found = resolve_config(str(root))
    assert (found.max_hash_slot_num, found.max_index_num) == (CONFIG.max_hash_slot_num, CONFIG.max_index_num)
    assert run("cat", root).exit_code == 0


@pytest.mark.parametrize("size", [1, 39, 228, 248])
def test_the_only_index_file_cut_leaves_the_geometry_open(root: Path, size: int) -> None:
    for path in files(root / "index")[1:]:
        path.unlink()
    cut(files(root / "index")[0], size)
    with pytest.raises(GeometryError, match="shows no maxHashSlotNum"):
        resolve_config(str(root))
    assert run("cat", root).exit_code == 0
    assert "--max-hash-slot-num" in run("rebuild", root, "-o", root.parent / "out").stderr


def test_text_in_abort_is_of_5_whatever_it_says(root: Path) -> None:
    shutil.rmtree(root / "index")
    (root / "abort").write_bytes(b"12x45")
    assert resolve_config(str(root)).dialect.tags_in_index


def _loop(path: Path) -> None:
    path.symlink_to(path.name)


def _dangling(path: Path) -> None:
    path.symlink_to("nowhere")


MAKE: list[Callable[[Path], None]] = [Path.mkdir, _loop, _dangling]


@pytest.mark.parametrize("make", MAKE)
@pytest.mark.parametrize("name", ["checkpoint", "config/topics.json", f"consumequeue/TopicA/0/{0:020d}"])
def test_verify_finds_what_is_no_file_and_goes_on(root: Path, name: str, make: Callable[[Path], None]) -> None:
    (root / "config").mkdir()
    (root / name).unlink(missing_ok=True)
    make(root / name)
    index = files(root / "index")[0]
    data = bytearray(index.read_bytes())
    data[40 + 4 * CONFIG.max_hash_slot_num + 20 + 7] ^= 1  # one harm more, elsewhere
    index.write_bytes(data)
    found = checks(root)
    assert ("unreadable", name) in found
    assert f"index/{index.name}" in [path for _, path in found]


def test_verify_finds_a_folder_in_the_place_of_a_log_file(root: Path) -> None:
    path = files(root / "commitlog")[0]
    path.unlink()
    path.mkdir()
    assert ("unreadable", f"commitlog/{path.name}") in checks(root)


@pytest.mark.parametrize("make", [_loop, _dangling])
def test_a_link_among_queue_files_is_no_obstacle_to_a_rebuild(
    root: Path, tmp_path: Path, make: Callable[[Path], None]
) -> None:
    path = files(root / "consumequeue" / "TopicA" / "0")[0]
    path.unlink()
    make(path)
    assert run("cat", root).exit_code == 0
    assert run("rebuild", root, "-o", tmp_path / "out").exit_code == 0


def test_a_slot_below_zero_is_no_empty_slot(root: Path) -> None:
    for path in files(root / "index"):
        data = bytearray(path.read_bytes())
        for slot in range(CONFIG.max_hash_slot_num):
            data[40 + 4 * slot] |= 0x80
        path.write_bytes(data)
    with opened(root) as store:
        answer = store.query_message("TopicA", "hot")
    assert (answer.messages, answer.complete) == ((), False)
    assert "a link below 0" in str(answer.unreadable[0])


def test_get_prints_what_is_before_a_harmed_message(root: Path) -> None:
    path = files(root / "commitlog")[0]
    data = bytearray(path.read_bytes())
    data[data.index(b"body 3")] ^= 1
    path.write_bytes(data)
    result = run("get", root, "--topic", "TopicA", "--queue", "0", "--offset", "0")
    assert result.exit_code == 1
    assert len(result.stdout.splitlines()) == 3
    assert "continue with --offset 3" in result.stderr
    assert f"the message at queue offset 3 cannot be read: {path}: byte" in result.stderr


def test_a_body_that_cannot_be_decompressed_is_located_in_its_file(tmp_path: Path) -> None:
    sent = zlib.compress(b"sent " * 50)
    wrong = sent[:-4] + b"oops"
    log = [*MESSAGES[:18], message(18, body=wrong, sys_flag=SYS_FLAG_COMPRESSED)]
    root = build(tmp_path / "store", log)
    path = next(path for path in files(root / "commitlog") if wrong in path.read_bytes())
    assert path.name != f"{0:020d}"
    for command in (["cat", root, "--json", "--decompress"], ["cat", root]):
        result = run(*command)
        assert result.exit_code == 1
        assert f"{path}: byte {path.read_bytes().index(wrong)}: the body is not a complete zlib stream" in result.stderr


Rows = list[tuple[int, bytes]]
"""The physical offset and the body of some messages."""


def rows_of(messages: Iterable[StoredMessage]) -> Rows:
    return [(each.physical_offset, each.body) for each in messages]


def polled(store: MessageStore) -> Iterator[Rows]:
    with Consumer(store, "G", "T") as member:
        while messages := member.poll(7):
            yield rows_of(messages)


def paged(store: MessageStore, offset: int) -> Iterator[Rows]:
    while True:
        page = store.get_message("T", 0, offset, 7)
        yield rows_of(page.messages)
        if page.next_begin_offset == offset:
            return
        offset = page.next_begin_offset


def paged_columns(store: MessageStore, offset: int) -> Iterator[Rows]:
    while True:
        page = store.get_columns("T", 0, offset, 7, columns=["physical_offset", "body"])
        yield [(row["physical_offset"], row["body"]) for row in page.table.to_pylist()]
        if page.next_begin_offset == offset:
            return
        offset = page.next_begin_offset


def read_some(parts: Iterator[Rows]) -> tuple[Rows, bool]:
    """The rows before an error of Logdex, and whether there was one."""
    rows: Rows = []
    try:
        for part in parts:
            rows += part
    except LogdexError:
        return rows, True
    return rows, False


def read_cut_log(root: Path, sizes: Iterable[int] = (0, 4095, 4096, 4500, 3 * 4096)) -> None:
    """Cuts the log of an open store at many sizes: of each message, of which one half is dispatched
    by then, there is an answer as before, or an error of Logdex. Nothing else is raised."""
    for size in sizes:
        with open_store(root / str(size), mapped_file_size_commit_log=1 << 16) as store:
            puts = []
            for number in range(80):
                if number == 40:
                    store.dispatch()
                puts.append(store.put_message(Message("T", bytes(300), keys=f"k{number}", queue_id=0)))
            known = {put.physical_offset: store.look_message_by_offset(put.physical_offset) for put in puts}
            os.truncate(files(root / str(size) / "commitlog")[0], size)
            assert size < puts[39].physical_offset
            for _ in range(2):
                with pytest.raises((CorruptError, UnreadableError)):
                    store.dispatch()
            assert 0 < store.dispatch_behind_bytes <= store.max_phy_offset - puts[40].physical_offset
            whole = [put for put in puts if put.physical_offset + put.size_bytes <= size]
            for number, put in enumerate(puts):
                is_whole = put.physical_offset + put.size_bytes <= size
                with nullcontext() if is_whole else pytest.raises((CorruptError, UnreadableError)):
                    assert store.look_message(put.msg_id or "") == known[put.physical_offset]
                if number < 40:
                    with nullcontext() if is_whole else pytest.raises((CorruptError, UnreadableError)):
                        assert store.get_message("T", 0, number, 1).messages == (known[put.physical_offset],)
                with suppress(CorruptError, UnreadableError):
                    if number % 40 == 1:  # each scans what is not dispatched, and looks again at a file that shrinks
                        assert store.query_message("T", f"k{number}").messages in ((), (known[put.physical_offset],))
            expected = rows_of(known.values())[: len(whole)]
            for parts in (paged(store, 0), paged_columns(store, 0)):
                assert read_some(parts) == (expected, True)
            assert read_some(polled(store)) == ([], True)  # it dispatches first
            scan = store.scan()
            assert rows_of(scan) == expected
            assert scan.end is not None
            assert not scan.end.is_clean
        print("commitlog", size)


QUEUE = "consumequeue/T/0"


def read_cut_derived(root: Path, cuts: Iterable[tuple[str, int]]) -> None:
    """Cuts the first ConsumeQueue file or IndexFile of an open store: what needs the file gives
    the rows that it gave before, or says that it cannot. The next opening derives what was cut."""
    for folder, size in cuts:
        path = root / folder.replace("/", "-") / str(size)
        store = open_store(path, mapped_file_size_commit_log=1 << 16)
        for number in range(80):
            if number == 40:
                store.dispatch()
            store.put_message(Message("T", b"body %d" % number, keys=f"k{number}", queue_id=0))
        rows = rows_of(store.scan())
        assert (len(rows), store.get_message("T", 0, 0).max_offset) == (80, 40)
        os.truncate(files(path / folder)[0], size)
        with suppress(LogdexError):
            store.dispatch()
        assert rows_of(store.scan()) == rows
        for begin in (0, 10, 30):  # a queue's file has ten entries
            for parts in (paged(store, begin), paged_columns(store, begin)):
                found, is_error = read_some(parts)
                assert found == rows[begin : begin + len(found)]
                assert is_error if folder == QUEUE and begin < 10 else is_error or len(found) >= 40 - begin
        found, is_error = read_some(polled(store))
        assert found == rows[: len(found)]
        assert is_error is (folder == QUEUE)
        for number in range(0, 80, 7):
            with suppress(LogdexError):
                answer = store.query_message("T", f"k{number}")
                assert rows_of(answer.messages) == rows[number : number + 1] or not answer.complete
        with suppress(LogdexError):
            store.close()  # an IndexFile of another size ends it uncleanly
        with open_store(path, mapped_file_size_commit_log=1 << 16) as store:
            assert rows_of(store.get_message("T", 0, 0, 99).messages) == rows
            for number in range(80):
                assert rows_of(store.query_message("T", f"k{number}").messages) == [rows[number]]
        require_sound(path, mapped_file_size_commit_log=1 << 16)
        print(folder, size)


CUTS = [*((QUEUE, size) for size in (0, 19, 20, 100, 199)), *(("index", size) for size in (0, 39, 41, 300, 1451))]


def run_in_process(call: str, root: Path) -> None:
    """Calls a function of this module in a process of its own, which a signal would end."""
    code = "import sys; from pathlib import Path; from tests.hostile.rocketmq.test_cut_files import *"
    command = [sys.executable, "-c", f"{code}; root = Path(sys.argv[1]); {call}", str(root)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, f"exit {done.returncode} behind {done.stdout.split()}: {done.stderr[-3000:]}"


def test_files_that_are_cut_under_an_open_store_kill_nobody(tmp_path: Path) -> None:
    some = [(QUEUE, 30), ("index", 0)]
    run_in_process(f"read_cut_log(root, [4500]); read_cut_derived(root, {some!r})", tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("call", ["read_cut_log(root)", "read_cut_derived(root, CUTS)"])
def test_all_cuts_of_files_under_an_open_store(call: str, tmp_path: Path) -> None:
    run_in_process(call, tmp_path)
