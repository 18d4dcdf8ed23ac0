"""Sectors that cannot be read in the filler, behind the log's end, and around bodies that hold
messages."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from logdex.kernels.rocketmq import message_scan as kernel
from logdex.layout.rocketmq import BLANK
from logdex.rocketmq.commit_log.commit_log import CommitLog
from logdex.rocketmq.commit_log.log_end import EndKind
from logdex.rocketmq.files.offset_files import OffsetFile
from logdex.rocketmq.message.stored_message import StoredMessage, encode_message
from logdex.rocketmq.rebuild import rebuild
from logdex.rocketmq.rebuild.parts import scan_part
from logdex.rocketmq.rebuild.source import behind_unreadable
from logdex.rocketmq.scan.log_bytes import LogBytes
from logdex.rocketmq.scan.scan_end import log_end_at
from logdex.rocketmq.scan.scan_part import ScanPart
from logdex.rocketmq.settings.dialect import Dialect
from logdex.rocketmq.settings.store_config import StoreConfig
from logdex.rocketmq.verify import verify
from logdex.testing import BadSectorsEnv
from logdex.testing.store_builder import make_message, write_commit_log
from tests.hostile.rocketmq.embedded import HEAD_SIZE, inner
from tests.plain_twins import plain_twins

PAGE = 4096
FILE = 8 * PAGE
CONFIG = StoreConfig(
    mapped_file_size_commit_log=FILE,
    mapped_file_size_consume_queue=20 * 50,
    max_hash_slot_num=7,
    max_index_num=100,
    dialect=Dialect.of("5.5.0"),
)


def sized(number: int, size: int, body: bytes = b"") -> StoredMessage:
    """A message of `size` bytes whose body begins with `body`."""
    properties = [(b"KEYS", b"key-%d" % number), (b"TAGS", b"TagA")]
    bare = make_message(queue_offset=number, properties=properties, body=b"").size_bytes
    return make_message(queue_offset=number, properties=properties, body=body.ljust(size - bare, b"-"))


def build(root: Path, sizes: list[int], *, empty_files: int = 0) -> Path:
    write_commit_log(str(root), [sized(*each) for each in enumerate(sizes)], FILE)
    rebuild(str(root), str(root), CONFIG, in_place=True, sync=False)
    for _ in range(empty_files):
        files = len(list((root / "commitlog").iterdir()))
        (root / "commitlog" / f"{files * FILE:020d}").write_bytes(bytes(FILE))
    return root


def bad(root: Path, *sectors: tuple[int, int, int]) -> BadSectorsEnv:
    """An environment that cannot read some pages: (number of the file, first page, page behind)."""
    ranges: dict[str, list[tuple[int, int]]] = {}
    for number, first, behind in sectors:
        path = str(root / "commitlog" / f"{number * FILE:020d}")
        ranges.setdefault(path, []).append((first * PAGE, behind * PAGE))
    return BadSectorsEnv(ranges)


def test_the_zeros_of_a_filler_are_not_missed(tmp_path: Path) -> None:
    root = build(tmp_path / "store", [7 * PAGE - BLANK.size_bytes, 2 * PAGE])
    with plain_twins(False):
        report = rebuild(str(root), str(tmp_path / "out"), CONFIG, sync=False, env=bad(root, (0, 7, 8)))
    assert report.messages == 2
    assert report.losses == []


def test_a_part_whose_last_message_ends_where_a_sector_begins(tmp_path: Path) -> None:
    root = build(tmp_path / "store", [PAGE] * 7)
    env = bad(root, (0, 4, 5))
    with CommitLog.of_config(str(root), CONFIG, env=env) as log, plain_twins(False):
        part = ScanPart(log.files[0], 2 * PAGE, 4 * PAGE, found=True)
        behind = behind_unreadable(str(root), log, CONFIG, env)
        scan = scan_part(part, CONFIG, str(tmp_path / "stage"), behind=behind, env=env)
    assert (scan.messages, scan.next, scan.end, scan.left_out) == (2, 4 * PAGE, None, [])


def test_bytes_that_cannot_be_read_are_not_taken_for_unwritten_ones(tmp_path: Path) -> None:
    """The body of the second message holds a message behind which all bytes read as zeros."""
    root, at = tmp_path / "store", PAGE + 10
    held = inner(at + HEAD_SIZE)
    messages = [sized(0, at), sized(1, 4 * PAGE, held + bytes(2 * PAGE)), sized(2, PAGE)]
    write_commit_log(str(root), messages, FILE)
    rebuild(str(root), str(root), CONFIG, in_place=True, sync=False)
    path = root / "commitlog" / f"{0:020d}"
    assert path.read_bytes()[at:].startswith(encode_message(replace(messages[1], physical_offset=at))[:HEAD_SIZE])
    env = bad(root, (0, 0, 1), (0, 2, 8))
    report = rebuild(str(root), str(tmp_path / "out"), CONFIG, sync=False, env=env)
    assert report.messages == 0
    assert report.lossy


def test_a_file_behind_the_end_of_the_log_that_cannot_be_read(tmp_path: Path) -> None:
    root = build(tmp_path / "store", [PAGE, PAGE], empty_files=2)
    env = bad(root, (1, 0, 1))
    report = rebuild(str(root), str(tmp_path / "out"), CONFIG, sync=False, env=env)
    assert report.messages == 2
    assert report.lossy
    assert f"{FILE:020d}: byte 0: bytes 0 to 8 cannot be read" in report.losses[0]
    assert [(each.check, each.path) for each in verify(str(root), CONFIG, env=env).findings] == [
        ("unreadable", str(root / "commitlog" / f"{FILE:020d}"))
    ]


def test_verify_does_not_call_an_end_that_cannot_be_read_torn(tmp_path: Path) -> None:
    root = build(tmp_path / "store", [PAGE, 3 * PAGE, 5 * PAGE, 3 * PAGE])
    env = bad(root, (0, 2, 8), (1, 1, 8))
    report = verify(str(root), CONFIG, env=env)
    places = [(0, PAGE), (1, 0)]
    assert [(each.check, each.path, each.position) for each in report.findings] == [
        ("unreadable", str(root / "commitlog" / f"{number * FILE:020d}"), at) for number, at in places
    ]
    assert not any("cuts" in each.mend for each in report.findings)


def test_one_damaged_message_does_not_have_the_whole_file_read(tmp_path: Path) -> None:
    """Else the time for many sectors would be their number times the size of the file."""
    path, size = tmp_path / f"{0:020d}", 3 << 20
    damaged = bytearray(encode_message(sized(0, PAGE)))
    damaged[200] ^= 1
    path.write_bytes((damaged + bytes(BLANK.size_bytes)).ljust(size, b"-"))
    with BadSectorsEnv({str(path): [(2 << 20, size)]}).map_read(str(path)) as mapped:
        end = log_end_at(OffsetFile(str(path), 0, size), mapped.array, 0, kernel.BAD_CRC)
        assert end.kind is EndKind.CORRUPT
        assert not LogBytes(mapped.array, 0).is_unwritten(PAGE)
