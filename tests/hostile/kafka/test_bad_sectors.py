"""A sector of a segment that the disk cannot read: readers say where, and recover, rebuild and
verify go on."""

from __future__ import annotations

from pathlib import Path

import pytest

from logdex.errors import UnreadableError
from logdex.io.env import Env
from logdex.kafka.columns.record_columns import read_record_batches
from logdex.kafka.rebuild import rebuild
from logdex.kafka.recover import recover
from logdex.kafka.scan.scanner import BatchScanner
from logdex.kafka.verify import verify
from logdex.testing import BadSectorsEnv
from tests.directories import tree_hash
from tests.hostile.cutting import until_error
from tests.hostile.kafka.cut_readers import logs, make, partition

PAGE = 4096


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


def test_rebuild_reports_it(root: Path, tmp_path: Path) -> None:
    path, env = bad_env(root)
    sound, found = tmp_path / "sound" / "events-0", tmp_path / "out" / "events-0"
    rebuild(str(root), str(tmp_path / "sound"), sync=False)
    report = rebuild(str(root), str(tmp_path / "out"), sync=False, env=env)
    assert report.lossy
    told = [loss for loss in report.losses if f"bytes {2 * PAGE} to {3 * PAGE} cannot be read" in loss]
    assert [loss.partition(":")[0] for loss in told] == [str(path)], report.losses
    for log in logs(root):
        for suffix in (".index", ".timeindex"):
            wanted, there = ((folder / log.name).with_suffix(suffix).read_bytes() for folder in (sound, found))
            if log != path:
                assert there == wanted, log.name
            else:  # it ends before the sector; the time index has an entry for its end
                assert len(there) < len(wanted)
                assert suffix == ".timeindex" or wanted.startswith(there)


def test_verify_finds_it_and_goes_on(root: Path) -> None:
    path, env = bad_env(root)
    report = verify(str(root), env=env)
    found = [finding for finding in report.findings if finding.check == "unreadable"]
    assert [finding.path for finding in found] == [str(path)]
    assert "cannot be read" in found[0].message
    assert report.messages >= 500
