"""Given what was given to the broker's engine, `MessageStore` writes the engine's files, byte for
byte; and what brokers wrote it opens, goes on with, and closes without a finding."""

from __future__ import annotations

import base64
import hashlib
import shutil
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from logdex.primitives.host import Host
from logdex.primitives.java_hash import java_hash
from logdex.rocketmq.message_store.message_store import MessageStore
from logdex.rocketmq.message_store.put.message import Message, PutMessageStatus
from logdex.rocketmq.verify import verify
from tests.conformance.rocketmq.test_rebuild import config_of, derived_files, expected_files
from tests.golden import rocketmq as golden

WRITTEN = [
    pytest.param(name, marks=() if name.startswith("tiny") else pytest.mark.slow)
    for name in golden.derived_anew()
    if golden.manifest(name)["steps"][0]["main"] == "WriteStore"
    and golden.manifest(name)["messages"][0]["physicalOffset"] == 0
]
START_MS = 1_700_000_000_000


def settings_of(name: str) -> dict[str, Any]:
    config = config_of(name)
    return {
        "mapped_file_size_commit_log": config.mapped_file_size_commit_log,
        "mapped_file_size_consume_queue": config.mapped_file_size_consume_queue,
        "max_hash_slot_num": config.max_hash_slot_num,
        "max_index_num": config.max_index_num,
        "rocketmq_version": config.dialect.version,
    }


def host(text: str) -> Host:
    address, _, port = text.rpartition(" ")
    return Host.parse(f"[{address}]:{port}" if ":" in address else f"{address}:{port}")


def bucket(name: str) -> int:
    value = java_hash(name.encode()) & 0xFFFFFFFF
    return (value ^ value >> 16) & 15


def put_again(row: dict[str, Any]) -> Message:
    """The message that the engine was given; its properties in another order than the stored one,
    but for those of one bucket of Java's map, whose order is that in which they were set."""
    parts = (pair.partition("\x01") for pair in row["properties"].split("\x02") if pair)
    pairs = [(name, value) for name, _, value in parts]
    pairs.sort(key=lambda pair: -bucket(pair[0]))
    return Message(
        row["topic"],
        base64.b64decode(row["body"]),
        properties=dict(pairs),
        queue_id=row["queueId"],
        flag=row["flag"],
        sys_flag=row["sysFlag"],
        born_timestamp_ms=row["bornTimestamp"],
        born_host=host(row["bornHost"]),
        store_host=host(row["storeHost"]),
        reconsume_times=row["reconsumeTimes"],
        prepared_transaction_offset=row["preparedTransactionOffset"],
    )


def puts(rows: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """The puts that a store was made by: the messages of a batch share their time of birth and
    their host."""
    alike = groupby(rows, lambda row: (row["topic"], row["queueId"], row["storeTimestamp"], row["bornHost"]))
    for _, group in alike:
        yield list(group)


def without_filler(path: Path, manifest: dict[str, Any]) -> str:
    """The digest of a file up to the eight bytes of its filler, after which 4.7.0 writes what is
    left in its buffer."""
    start, size = int(path.name), manifest["geometry"]["commitLogFileSize"]
    ends = [row["physicalOffset"] + row["size"] for row in manifest["messages"]]
    end = max(end for end in ends if start < end <= start + size)
    is_filled = end < max(ends)
    data = path.read_bytes()
    return hashlib.sha256(data[: end - start + 8] if is_filled else data).hexdigest()


@pytest.mark.parametrize("name", WRITTEN)
def test_the_files_are_the_engines(name: str, golden_store: Callable[..., Path], tmp_path: Path) -> None:
    times = [START_MS]
    manifest = golden.manifest(name)
    with MessageStore.open(
        tmp_path / "store", clock_ms=lambda: times[-1], unique_keys=False, background=False, **settings_of(name)
    ) as store:
        store.create_topic("SCHEDULE_TOPIC_XXXX", 18)
        for rows in puts(manifest["messages"]):
            times.append(rows[0]["storeTimestamp"])
            messages = [put_again(row) for row in rows]
            put = store.put_message(messages[0]) if len(rows) == 1 else store.put_messages(messages)
            assert put.status is PutMessageStatus.PUT_OK
            assert (put.physical_offset, put.queue_offset) == (rows[0]["physicalOffset"], rows[0]["queueOffset"])
            assert put.msg_id == ",".join(row["msgId"] for row in rows)
    kept = golden_store(name, recovered=True) if manifest["unclean"] else golden_store(name)
    for path in sorted((tmp_path / "store" / "commitlog").iterdir()):
        assert without_filler(path, manifest) == without_filler(kept / "commitlog" / path.name, manifest)
    assert derived_files(tmp_path / "store") == expected_files(name)


GOES_ON = ["tiny-5.5.0", "tiny-4.9.7", "tiny-broker", "tiny-crash", "tiny-torn", "tiny-expired"]
MORE = [
    pytest.param(name, marks=pytest.mark.slow) for name in golden.NAMES if name not in [*GOES_ON, "default-geometry"]
]


@pytest.mark.parametrize("name", [*GOES_ON, *MORE])
def test_a_brokers_store_is_gone_on_with(name: str, golden_copy: Callable[[str], Path]) -> None:
    """Everything that the engine keeps is there, all of it is found by its keys, and verify has no
    findings."""
    root, manifest = golden_copy(name), golden.manifest(name)
    with MessageStore.open(root, background=False, **settings_of(name)) as store:
        assert store.load_report.was_clean is not manifest["unclean"]
        before = store.max_phy_offset
        assert before >= manifest["store"]["maxPhyOffset"]
        for row in manifest["messages"]:
            if row["physicalOffset"] >= store.min_phy_offset:
                assert (
                    base64.b64encode(store.look_message_by_offset(row["physicalOffset"]).body).decode() == row["body"]
                )
        for turn in range(40):
            put = store.put_message(Message("TopicA", b"more", keys=f"more-{turn}", queue_id=0))
            assert put.status is PutMessageStatus.PUT_OK
        store.dispatch()
        for turn in range(40):
            assert len(store.query_message("TopicA", f"more-{turn}").messages) == 1
    config = config_of(name)
    report = verify(str(root), config)
    assert [str(finding) for finding in report.findings if finding.check != "commit-log-starts-later"] == []
    with MessageStore.open(root, background=False, **settings_of(name)) as store:
        assert store.load_report.was_clean
        assert (store.load_report.queues_from, store.load_report.index_from) == (store.max_phy_offset,) * 2


CLOSED = [
    pytest.param(name, marks=() if name.startswith("tiny-5") else pytest.mark.slow)
    for name in golden.derived_anew()
    if not golden.manifest(name)["unclean"]
]


@pytest.mark.parametrize("lost", ["the log's last entry", "the index"])
@pytest.mark.parametrize("name", CLOSED)
def test_what_a_broker_had_written_is_derived_again(name: str, lost: str, golden_copy: Callable[[str], Path]) -> None:
    root, entry_size = golden_copy(name), 20
    if lost == "the index":
        shutil.rmtree(root / "index")
    else:
        topic, queue, offset, *_ = max(golden.manifest(name)["entries"], key=lambda entry: entry[3])
        per_file = config_of(name).consume_queue_file_size_bytes // entry_size
        path = root / "consumequeue" / topic / str(queue) / f"{offset // per_file * per_file * entry_size:020d}"
        with path.open("r+b") as file:
            file.seek(offset % per_file * entry_size)
            file.write(bytes(entry_size))
    assert derived_files(root) != expected_files(name)
    with MessageStore.open(root, background=False, **settings_of(name)) as store:
        assert store.load_report.was_clean
    assert derived_files(root) == expected_files(name)
