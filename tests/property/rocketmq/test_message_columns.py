"""Arrow from a scan's columns against messages decoded one by one: any messages, filters, sizes,
odd properties."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logdex.kernels.rocketmq import property_columns as kernel
from logdex.primitives.host import Host
from logdex.rocketmq.columns import message_columns
from logdex.rocketmq.columns.message_arrow import SCHEMA, messages_to_batch
from logdex.rocketmq.commit_log.commit_log import CommitLog
from logdex.rocketmq.message.properties import parse_properties
from logdex.rocketmq.message.stored_message import StoredMessage
from logdex.rocketmq.read.message_scan import LogScan
from logdex.rocketmq.read.plan import PlanSource
from logdex.rocketmq.read.read_filter import ReadFilter
from logdex.rocketmq.scan.scanner import Scanner
from logdex.rocketmq.settings.store_config import StoreConfig
from logdex.testing.store_builder import make_message, write_commit_log
from logdex.testing.strategies import INT64, properties_raw, stored_messages
from tests.examples import examples

_FILTERS = st.builds(
    ReadFilter,
    topic=st.none() | st.sampled_from([b"TopicA", b"TopicB"]),
    queue_ids=st.none() | st.sets(st.integers(0, 3), min_size=1, max_size=2).map(frozenset),
    begin_ms=st.none() | st.integers(-1000, 1000) | st.integers(1_600_000_000_000, 1_800_000_000_000),
    end_ms=st.none() | st.integers(-1000, 1000) | st.integers(1_600_000_000_000, 1_800_000_000_000),
    begin_queue_offset=st.none() | st.integers(0, 5) | INT64,
)


def passes(wanted: ReadFilter, message: StoredMessage) -> bool:
    """The filter, but for `begin_offset`."""
    return (
        wanted.topic in (None, message.topic)
        and (wanted.queue_ids is None or message.queue_id in wanted.queue_ids)
        and (wanted.begin_ms is None or message.store_timestamp_ms >= wanted.begin_ms)
        and (wanted.end_ms is None or message.store_timestamp_ms <= wanted.end_ms)
        and (wanted.begin_queue_offset is None or message.queue_offset >= wanted.begin_queue_offset)
    )


def scan_of(directory: str, wanted: ReadFilter | None = None, limit: int | None = None) -> LogScan:
    return LogScan(PlanSource(CommitLog(directory), StoreConfig()), wanted or ReadFilter(), limit)


def written(root: str, messages: Iterable[StoredMessage], file_size_bytes: int = 4096) -> str:
    write_commit_log(root, messages, file_size_bytes)
    return str(Path(root) / "commitlog")


def check_equal(got: pa.Table, items: Iterable[tuple[int, StoredMessage]]) -> None:
    """Schema, order and every value; the buffers are as Arrow wants them."""
    got.validate(full=True)
    expected = messages_to_batch(items)
    assert got.schema.equals(SCHEMA, check_metadata=True)
    assert got.to_pylist() == expected.to_pylist()
    assert got.combine_chunks().equals(pa.Table.from_batches([expected]))


@settings(max_examples=examples(150), deadline=None)
@given(st.lists(stored_messages(), max_size=12), _FILTERS, st.none() | st.integers(0, 6), st.integers(0, 3), st.data())
def test_columns_and_decoded_messages_agree(
    messages: list[StoredMessage], wanted: ReadFilter, limit: int | None, skipped: int, data: st.DataObject
) -> None:
    with TemporaryDirectory() as root, pytest.MonkeyPatch.context() as patched:
        patched.setattr(message_columns, "BATCH_MESSAGES", data.draw(st.sampled_from([1, 3, 4_096])))
        patched.setattr(message_columns, "BATCH_BYTES", data.draw(st.sampled_from([1, 500, 1 << 20])))
        directory = written(root, messages)
        everything = list(scan_of(directory).items())
        if len(everything) > skipped:
            wanted = dataclasses.replace(wanted, begin_offset=everything[skipped][0])
            everything = everything[skipped:]
        expected = [item for item in everything if passes(wanted, item[1])][:limit]
        scan = scan_of(directory, wanted, limit)
        batches = list(scan.arrow_reader())
        check_equal(pa.Table.from_batches(batches, SCHEMA), expected)
        assert all(0 < batch.num_rows <= message_columns.BATCH_MESSAGES for batch in batches)
        for batch in batches:
            assert batch.num_rows == 1 or sum(batch["size_bytes"].to_pylist()) <= message_columns.BATCH_BYTES
        assert list(scan_of(directory, wanted, limit).items()) == expected


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(properties_raw() | st.binary(max_size=80) | st.text().map(str.encode), max_size=8))
def test_properties_alone(raws: list[bytes]) -> None:
    with_slack = pa.array([*raws, bytes(kernel.SLACK)], pa.binary())[:-1]
    columns = message_columns.property_columns(with_slack)
    parsed = messages_to_batch((0, dataclasses.replace(make_message(), properties_raw=raw)) for raw in raws)
    for name, column in columns.items():
        column.validate(full=True)
        assert column.to_pylist() == parsed[name].to_pylist(), name


def with_properties(*raws: bytes) -> list[StoredMessage]:
    return [dataclasses.replace(make_message(), properties_raw=raw) for raw in raws]


def test_odd_properties_among_usual_ones(tmp_path: Path) -> None:
    many = [b"n%d\x01v" % number for number in range(200)]
    messages = with_properties(
        b"KEYS\x01a b\x02TAGS\x01t\x02UNIQ_KEY\x01u\x02",
        b"\xff\x01a\x02\\xff\x01b\x02KEYS\x01\xe4 \xb8\x02",  # two names, one text
        b"TAGS\x01first\x02a\x01b\x02TAGS\x01last",
        b"\x02".join([*many, b"KEYS\x01k  k "]),
        b"\x02".join([*many, b"n7\x01again"]),
        b"a\x01b\x02" * 8_191 + b"c\x01d",
        b"TAGS\x01\x02KEYS\x01  \x02UNIQ_KEY\x02\x01x\x02TAGS",
        b"a\x01b\x01c\x02\xe6\x97\xa5\x01\xf0\x9f\x98\x80\x02",
        b"",
    )
    directory = written(str(tmp_path), messages, 1 << 17)
    table = scan_of(directory).arrow_reader().read_all()
    check_equal(table, scan_of(directory).items())
    rows = table.to_pylist()
    assert rows[0]["keys"] == ["a", "b"]
    assert rows[1]["properties"] == [("\\xff", "a"), ("\\xff", "b"), ("KEYS", "\\xe4 \\xb8")]
    assert rows[2]["properties"] == [("TAGS", "last"), ("a", "b")]
    assert (rows[6]["tags"], rows[6]["keys"], rows[6]["unique_key"]) == (None, [], None)
    assert rows[7]["properties"] == [("a", "b\x01c"), ("日", "😀")]


def test_only_odd_properties_are_parsed_in_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[bytes] = []

    def parse_noted(raw: bytes) -> dict[bytes, bytes]:
        parsed.append(raw)
        return parse_properties(raw)

    monkeypatch.setattr(message_columns, "parse_properties", parse_noted)
    usual = [b"WAIT\x01true\x02TAGS\x01\xe6\x97\xa5\x02" + b"n%d\x01v\x02" % number for number in range(50)]
    too_many = b"".join(b"n%d\x01v\x02" % number for number in range(kernel.NAMES_MAX + 1))
    directory = written(str(tmp_path), with_properties(*usual, b"a\x01\x80", *usual, too_many))
    assert scan_of(directory).arrow_reader().read_all().num_rows == 102
    assert parsed == [b"a\x01\x80", too_many]


def test_every_two_bytes_are_utf8_or_not_as_python_says() -> None:
    for before, behind in ((b"", b""), (b"abc", b"\x80"), (b"seven..", b"\x80\xbf"), (b"", b"a")):
        wrong = []
        buffer = np.zeros(32, np.uint8)
        for first in range(256):
            for second in range(256):
                raw = before + bytes([first, second]) + behind
                buffer[: len(raw)] = np.frombuffer(raw, np.uint8)
                at = buffer.ctypes.data
                if kernel._is_utf8(at, at + len(raw)) != is_utf8(raw):
                    wrong.append(raw)
        assert wrong == []


def is_utf8(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True


def test_what_few_rows_windows_hold_is_put_together(tmp_path: Path) -> None:
    messages = [make_message(b"AB"[number % 2 :][:1], queue_offset=number // 2) for number in range(64)]
    log = CommitLog(written(str(tmp_path), messages))
    scanner = Scanner(StoreConfig(), window_messages=4)
    windows = ((window, np.arange(1, window.count, 2)) for window in scanner.scan(log))
    batches = list(message_columns.to_record_batches(windows, scanner.table))
    assert [batch.num_rows for batch in batches] == [32]
    assert set(batches[0]["topic"].to_pylist()) == {"B"}


def test_texts_of_hosts(tmp_path: Path) -> None:
    hosts = [Host(bytes([10, 0, 255, 1]), 65535), Host(bytes(15) + b"\x01", 10911), Host(bytes(4), -1)]
    messages = [
        dataclasses.replace(make_message(sys_flag=0x30 if host.is_v6 else 0), born_host=host, store_host=host)
        for host in hosts
    ]
    table = scan_of(written(str(tmp_path), messages)).arrow_reader().read_all()
    assert table["born_host"].to_pylist() == ["10.0.255.1:65535", "[::1]:10911", "0.0.0.0:-1"]
    assert table["msg_id"].to_pylist()[0] == "0A00FF010000FFFF" + "0" * 16
    assert [len(text) for text in table["msg_id"].to_pylist()] == [32, 56, 32]


def test_a_crc_that_nothing_checks_is_no_negative_number(tmp_path: Path) -> None:
    message = dataclasses.replace(make_message(body=b""), body_crc=0xFFFFFFFE)
    assert scan_of(written(str(tmp_path), [message])).arrow_reader().read_all()["body_crc"].to_pylist() == [0xFFFFFFFE]


def test_columns_outlive_the_scan_and_memory_is_that_of_a_batch(tmp_path: Path) -> None:
    messages = [make_message(body=bytes([number]) * 60_000) for number in range(64)]
    directory = written(str(tmp_path), messages, 1 << 20)
    before = pa.total_allocated_bytes()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(message_columns, "BATCH_BYTES", 200_000)
        largest = 0
        for batch in scan_of(directory).arrow_reader():
            assert batch.num_rows <= 3
            largest = max(largest, pa.total_allocated_bytes() - before)
    assert largest < 1_000_000
    assert batch["body"][-1].as_py() == bytes([63]) * 60_000
