"""A sector of a segment that the disk cannot read: readers say where, and recover, rebuild and
verify go on."""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random

import numpy as np
import pytest

from logdex.errors import UnreadableError
from logdex.io.env import Env
from logdex.kafka.columns.record_columns import read_record_batches
from logdex.kafka.rebuild import rebuild
from logdex.kafka.recover import recover
from logdex.kafka.scan.scanner import BatchScanner
from logdex.kafka.segment.derive_indexes import IndexFold, encode_offset_entries, encode_time_entries
from logdex.kafka.verify import verify
from logdex.kernels.kafka.batch_columns import pick_columns
from logdex.testing import BadSectorsEnv
from tests.directories import tree_hash
from tests.examples import cases
from tests.hostile.cutting import until_error
from tests.hostile.kafka.cut_readers import logs, make, partition
from tests.unit.kafka.scan.embedded_logs import INNER, PLAIN, one

PAGE = 4096
INTERVAL_BYTES = 400


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("bad") / "logs")


def bad_env(root: Path, start: int = 2 * PAGE, end: int = 2 * PAGE + 512) -> tuple[Path, BadSectorsEnv]:
    path = logs(root)[1]
    return path, BadSectorsEnv({str(path): [(start, end)]})


def spans(path: Path) -> list[tuple[int, int, int, int]]:
    """(position, size, base offset, last offset) of each batch."""
    found = []
    for window in BatchScanner().scan_file(str(path)):
        columns = window.columns
        wanted = (columns.position, columns.size, columns.base_offset, columns.last_offset)
        found += [*zip(*(column.tolist() for column in wanted), strict=True)]
    return found


def lost_offsets(path: Path) -> set[int]:
    """The offsets of the batches that the page of the bad sector is part of."""
    return {
        offset
        for position, size, first, last in spans(path)
        for offset in range(first, last + 1)
        if position < 3 * PAGE and position + size > 2 * PAGE
    }


def test_a_scan_yields_what_lies_before_and_says_where(root: Path) -> None:
    path, env = bad_env(root)
    windows = BatchScanner(window_batches=3, env=env).scan_file(str(path))
    rows, error = until_error(position for window in windows for position in window.columns.position.tolist())
    assert (error.path, error.position, error.end_position) == (str(path), 2 * PAGE, 3 * PAGE)
    assert rows == [position for position, size, *_ in spans(path) if position + size <= 2 * PAGE]


def test_a_scan_from_behind_it_does_not_meet_it(root: Path) -> None:
    path, env = bad_env(root)
    start = next(position for position, *_ in spans(path) if position >= 3 * PAGE)
    assert sum(window.count for window in BatchScanner(env=env).scan_file(str(path), start))


def test_decoding_yields_what_lies_before(root: Path) -> None:
    path, env = bad_env(root)
    batches = read_record_batches(str(path), env=env)
    offsets, _ = until_error(offset for batch in batches for offset in batch.column("offset").to_pylist())
    assert offsets
    assert max(offsets) < min(lost_offsets(path))


def test_decoding_that_skips_damage_goes_on(root: Path) -> None:
    path, env = bad_env(root)
    told: list[object] = []
    batches = read_record_batches(str(path), env=env, on_bad_batch=told.append)
    offsets = [offset for batch in batches for offset in batch.column("offset").to_pylist()]
    sound = [n for batch in read_record_batches(str(path)) for n in batch.column("offset").to_pylist()]
    assert offsets == [offset for offset in sound if offset not in lost_offsets(path)]
    assert len(told) == 1
    assert "cannot be read" in str(told[0])


def test_reading_by_offset(root: Path) -> None:
    path, env = bad_env(root)
    lost = lost_offsets(path)
    with partition(root, env) as log:
        assert log.read(0, 100)[0].offset == 0
        assert log.read(590, 100)[0].offset == 590
        with pytest.raises(UnreadableError) as caught:
            log.read(min(lost), 100)
    assert caught.value.path == str(path)


def test_recover_keeps_all_others_and_reports_it(root: Path, tmp_path: Path) -> None:
    path, env = bad_env(root)
    before, output = tree_hash(root), tmp_path / "out"
    report = recover(str(root), str(output), sync=False, env=env)
    told = [each for each in report.skipped if "cannot be read" in each.why]
    assert [(each.path, each.is_loss) for each in told] == [(str(path), True)]
    assert told[0].start <= 2 * PAGE
    assert told[0].end >= 3 * PAGE
    assert report.lossy
    with partition(root, Env()) as sound, partition(output, Env()) as found:
        lost = lost_offsets(path)
        assert [*found.scan()] == [record for record in sound.scan() if record.offset not in lost]
    assert tree_hash(root) == before


SECTORS: dict[str, list[tuple[int, int, int]]] = {
    "one": [(1, 2 * PAGE, 2 * PAGE + 512)],
    "two in one segment": [(1, 2 * PAGE, 2 * PAGE + 1), (1, 6 * PAGE, 6 * PAGE + 1)],
    "in every segment": [(0, 3 * PAGE, 3 * PAGE + 1), (1, PAGE, PAGE + 1), (2, 5 * PAGE, 6 * PAGE)],
    "the beginning of a segment": [(1, 0, 512)],
    "the end of a segment": [(0, 8 * PAGE, 1 << 20)],
    "the end of the log": [(2, 8 * PAGE, 1 << 20)],
    "a whole segment": [(0, 0, 1 << 20)],
}
"""Sectors that cannot be read: (number of the segment, first byte, byte behind)."""


def unreadable(root: Path, name: str) -> BadSectorsEnv:
    ranges: dict[str, list[tuple[int, int]]] = {}
    for number, start, end in SECTORS[name]:
        path = logs(root)[number]
        ranges.setdefault(str(path), []).append((start, min(end, path.stat().st_size)))
    return BadSectorsEnv(ranges)


def is_lost(name: str, number: int, position: int, size: int) -> bool:
    """Whether a batch of a segment lies in a page with such a sector."""
    return any(
        each == number and position < -(-end // PAGE) * PAGE and start // PAGE * PAGE < position + size
        for each, start, end in SECTORS[name]
    )


@pytest.mark.parametrize("name", SECTORS)
def test_rebuild_goes_on_and_reports_it(name: str, root: Path, tmp_path: Path) -> None:
    env = unreadable(root, name)
    sound, found = tmp_path / "sound" / "events-0", tmp_path / "out" / "events-0"
    rebuild(str(root), str(tmp_path / "sound"), sync=False)
    report = rebuild(str(root), str(tmp_path / "out"), index_interval_bytes=INTERVAL_BYTES, sync=False, env=env)
    assert report.lossy
    told = [loss for loss in report.losses if "cannot be read in part" not in loss]
    wanted = [str(logs(root)[number]) for number, *_ in SECTORS[name]]
    assert [loss.partition(":")[0] for loss in told] == wanted, report.losses
    assert all("cannot be read" in loss for loss in told)
    messages = 0
    for number, log in enumerate(logs(root)):
        base = int(log.stem)
        fold, offset_index, time_index = IndexFold(base, INTERVAL_BYTES), b"", b""
        for window in BatchScanner().scan_file(str(log)):
            columns = window.columns
            places = zip(columns.position.tolist(), columns.size.tolist(), strict=True)
            kept = pick_columns(columns, np.array([not is_lost(name, number, *place) for place in places]))
            offsets, times = fold.add(kept)
            offset_index += encode_offset_entries(offsets, base)
            time_index += encode_time_entries(times, base)
            messages += int(kept.count.sum())
        assert (found / log.name).with_suffix(".index").read_bytes() == offset_index
        assert (found / log.name).with_suffix(".timeindex").read_bytes() == time_index + encode_time_entries(
            fold.finish(), base
        )
    assert report.messages == messages
    first = min(number for number, *_ in SECTORS[name])
    states = {path.name for path in found.iterdir() if path.suffix in (".snapshot", ".txnindex")}
    assert all(each.partition(".")[0] <= logs(root)[first].stem or each.endswith(".snapshot") for each in states)
    for number in range(1, first + 1):  # the state where segments begin that come before the first sector, and its own
        snapshot = logs(root)[number].with_suffix(".snapshot").name
        assert (found / snapshot).read_bytes() == (sound / snapshot).read_bytes()


def test_in_place_the_state_stays(root: Path, tmp_path: Path) -> None:
    copied = tmp_path / "logs"
    shutil.copytree(root, copied)
    ours = copied / "events-0"
    kept = {path: path.read_bytes() for path in ours.iterdir() if path.suffix in (".snapshot", ".txnindex", "")}
    for name in ("one", "the end of the log"):
        report = rebuild(str(copied), str(copied), in_place=True, sync=False, env=unreadable(copied, name))
        assert f"{ours}: .snapshot, .txnindex and leader-epoch-checkpoint stay as they were" in report.notes
        assert {path: path.read_bytes() for path in kept} == kept


@pytest.mark.parametrize("name", SECTORS)
def test_verify_of_what_was_rebuilt_finds_the_sectors_alone(name: str, root: Path, tmp_path: Path) -> None:
    copied = tmp_path / "logs"
    shutil.copytree(root, copied)
    for index in copied.glob("*/*.keyindex"):
        index.unlink()  # a key index covers a whole segment, so none is built
    env = unreadable(copied, name)
    rebuild(str(copied), str(copied), in_place=True, sync=False, env=env)
    assert {finding.check for finding in verify(str(copied), env=env).findings} == {"unreadable", "meta-properties"}


@pytest.mark.parametrize("seed", cases(range(200), 20))
def test_sectors_anywhere(seed: int, root: Path, tmp_path: Path) -> None:
    random = Random(seed)
    sectors = {(random.randrange(3), random.randrange(9) * PAGE) for _ in range(random.randint(1, 6))}
    ranges: dict[str, list[tuple[int, int]]] = {}
    for number, at in sectors:
        if at < logs(root)[number].stat().st_size:
            ranges.setdefault(str(logs(root)[number]), []).append((at, at + 1))
    env = BadSectorsEnv(ranges)
    report = recover(str(root), str(tmp_path / "recovered"), sync=False, env=env)
    told = [each.why for each in report.skipped if each.is_loss]
    assert all("cannot be read" in why or "whole batches that may lie in the value" in why for why in told), told
    rebuilt = rebuild(str(root), str(tmp_path / "rebuilt"), sync=False, env=env)
    assert all("cannot be read" in loss for loss in rebuilt.losses), rebuilt.losses
    assert rebuilt.messages == report.messages
    found = [each for each in verify(str(root), env=env).findings if each.path.endswith(".log")]
    assert {each.check for each in found} <= {"unreadable"}, found


def test_recover_reports_each_range(root: Path, tmp_path: Path) -> None:
    report = recover(str(root), str(tmp_path / "out"), sync=False, env=unreadable(root, "two in one segment"))
    told = [(each.path, each.why.partition(" [")[0]) for each in report.skipped if each.is_loss]
    path = str(logs(root)[1])
    assert told == [(path, f"bytes {at * PAGE} to {(at + 1) * PAGE} cannot be read") for at in (2, 6)]


def test_verify_reports_each_range(root: Path) -> None:
    report = verify(str(root), env=unreadable(root, "two in one segment"))
    assert [each.check for each in report.findings if each.path == str(logs(root)[1])] == ["unreadable"] * 2


def test_decoding_reports_each_range(root: Path) -> None:
    told: list[object] = []
    env = unreadable(root, "two in one segment")
    for _ in read_record_batches(str(logs(root)[1]), env=env, on_bad_batch=told.append):
        pass
    assert len(told) == 2
    assert all("cannot be read" in str(each) for each in told)


def test_verify_finds_it_and_goes_on(root: Path) -> None:
    path, env = bad_env(root)
    report = verify(str(root), env=env)
    found = [finding for finding in report.findings if finding.check == "unreadable"]
    assert [finding.path for finding in found] == [str(path)]
    assert "cannot be read" in found[0].message
    assert report.messages >= 500


def write_log(folder: Path, batches: list[bytes]) -> Path:
    (folder / "events-0").mkdir(parents=True)
    path = folder / "events-0" / f"{0:020d}.log"
    path.write_bytes(b"".join(batches))
    return path


def test_zeros_in_place_of_what_cannot_be_read_are_no_end_of_the_log(tmp_path: Path) -> None:
    """The value of the second batch, whose rest cannot be read, holds a batch before zeros."""
    held = bytes(PAGE) + one(2, INNER) + bytes(2 * PAGE)
    path = write_log(tmp_path / "logs", [one(0, PLAIN * 500), one(1, held + PLAIN * 2000), one(2, PLAIN)])
    size = path.stat().st_size
    end = path.read_bytes().find(INNER) + 100
    env = BadSectorsEnv({str(path): [(0, PAGE), (-(-end // PAGE) * PAGE, size)]})
    told: list[object] = []
    batches = read_record_batches(str(path), env=env, on_bad_batch=told.append)
    assert [offset for batch in batches for offset in batch.column("offset").to_pylist()] == []
    assert told
    report = rebuild(str(tmp_path / "logs"), str(tmp_path / "out"), sync=False, env=env)
    assert report.messages == 0
    assert report.lossy


def test_a_batch_that_seems_cut_off_is_told_where_the_rest_cannot_be_read(tmp_path: Path) -> None:
    """Its length is wrong too, and leads behind the end of the file."""
    wrong = bytearray(one(1, PLAIN * 1000))
    wrong[8] ^= 0x40
    path = write_log(tmp_path, [one(0, PLAIN), bytes(wrong), *(one(n, PLAIN * 100) for n in range(2, 20))])
    env = BadSectorsEnv({str(path): [(PAGE, path.stat().st_size)]})
    told: list[object] = []
    batches = read_record_batches(str(path), env=env, on_bad_batch=told.append)
    assert [offset for batch in batches for offset in batch.column("offset").to_pylist()] == [0]
    assert len(told) == 1
