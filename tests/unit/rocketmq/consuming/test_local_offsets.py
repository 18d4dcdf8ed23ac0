from __future__ import annotations

from pathlib import Path

import pytest

from logdex.errors import CorruptError, UsageError
from logdex.rocketmq.consuming.local_offsets import LocalFileOffsetStore


def test_what_is_persisted_is_read(tmp_path: Path) -> None:
    path = tmp_path / "client" / "G" / "offsets.json"
    store = LocalFileOffsetStore(path, broker_name="golden")
    assert store.read_offset("orders", 0) == -1
    store.persist("orders", {0: 12, 1: 7})
    store.persist("orders", {1: 8})
    store.persist(b"other", {0: 1})
    assert LocalFileOffsetStore(path, broker_name="golden").read_offsets("orders") == {0: 12, 1: 8}
    assert LocalFileOffsetStore(path).read_offsets("orders") == {}
    assert path.with_name("offsets.json.bak").exists()


def test_the_file_is_the_clients(tmp_path: Path) -> None:
    store = LocalFileOffsetStore(tmp_path / "offsets.json", broker_name="golden")
    store.persist("Orders", {0: 12, 1: 7})
    assert (tmp_path / "offsets.json").read_text() == (
        '{\n\t"offsetTable":{\n\t\t{\n\t\t\t"brokerName":"golden",\n\t\t\t"queueId":0,\n\t\t\t"topic":"Orders"\n\t\t}:12,\n'
        '\t\t{\n\t\t\t"brokerName":"golden",\n\t\t\t"queueId":1,\n\t\t\t"topic":"Orders"\n\t\t}:7\n\t}\n}'
    )


def test_the_clients_forms_are_read(tmp_path: Path) -> None:
    path = tmp_path / "offsets.json"
    path.write_text('{\n\t"offsetTable":{{\n\t\t\t"topic":"Orders",\n"queueId":3,"brokerName":"b"\n\t\t}:12}\n}')
    store = LocalFileOffsetStore(path, broker_name="b")
    assert store.read_offsets("Orders") == {3: 12}
    store.persist("Orders", {3: 13})
    assert store.read_offsets("Orders") == {3: 13}
    path.write_bytes(b"")
    assert store.read_offsets("Orders") == {3: 12}


@pytest.mark.parametrize(
    "text",
    [
        *("{offsetTable:[1]}", '{offsetTable:{{"a":{}}:1}}', '{offsetTable:{{"a":1}:"x"}}', "{"),
        *('{offsetTable:{{"queueId":"x"}:1}}', '{offsetTable:{{"queueId":0}:9223372036854775808}}'),
    ],
)
def test_what_no_client_writes_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "offsets.json"
    path.write_text(text)
    with pytest.raises(CorruptError):
        LocalFileOffsetStore(path).read_offsets("Orders")


def test_an_offset_is_replaced_however_its_queue_is_written(tmp_path: Path) -> None:
    path = tmp_path / "offsets.json"
    path.write_text('{offsetTable:{{"brokerName":"b","queueId":"3","topic":"Orders"}:"12"}}')
    store = LocalFileOffsetStore(path, broker_name="b")
    assert store.read_offsets("Orders") == {3: 12}
    store.persist("Orders", {3: 13})
    assert store.read_offsets("Orders") == {3: 13}
    assert path.read_text().count("queueId") == 1


def test_the_backup_stands_in_for_values_that_no_client_writes(tmp_path: Path) -> None:
    path = tmp_path / "offsets.json"
    path.write_text("{offsetTable:[1]}")
    path.with_name("offsets.json.bak").write_text('{offsetTable:{{"brokerName":"b","queueId":3,"topic":"Orders"}:12}}')
    assert LocalFileOffsetStore(path, broker_name="b").read_offsets("Orders") == {3: 12}


def test_negative_offsets_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        LocalFileOffsetStore(tmp_path / "offsets.json").persist("Orders", {0: -1})
