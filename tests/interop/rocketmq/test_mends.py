"""What `verify` prints to mend a finding is carried out, for every harm; then the real engine
starts on the store and serves every message, by queue and by key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from logdex.io.env import Env
from logdex.rocketmq.files.checkpoint import StoreCheckpoint
from logdex.rocketmq.geometry.index_geometry import read_header
from logdex.rocketmq.index_file.index_service import IndexService
from logdex.rocketmq.message.stored_message import StoredMessage
from tests.cli.rocketmq.test_mends import (
    CASES,
    DEFAULT,
    LEFT,
    UNREADABLE,
    WITHOUT_REPLICA,
    as_they_were,
    mended,
    mended_property_crc,
    mended_unreadable,
    property_crc_store,
    put_again,
    recovered,
    sound_store,
)
from tests.conformance.rocketmq.test_index import answer_of_engine
from tests.golden import rocketmq as golden
from tests.interop.rocketmq.test_real_engine import dump
from tests.mending import Mending
from tests.unit.rocketmq.verify.store_harm import Store, config_of
from tests.unit.rocketmq.verify.test_harm import NAME

pytestmark = [pytest.mark.needs_java, pytest.mark.slow, pytest.mark.timeout(600)]

OLDER = "tiny-4.9.7"
CUTS = {"zeroed tail", "last body"}
"""Where the mend says that a broker's next start cuts the log: the last message goes, as it
says."""


CRASHED = {"abort", "a directory for abort"}
"""With the file abort the engine drops IndexFiles that its checkpoint does not vouch for, and with
them keys, and puts keys of what it dispatches again."""
Lines = dict[str, list[dict[str, Any]]]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sound_store(tmp_path_factory.mktemp("sound"))


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sound_store(tmp_path_factory.mktemp("older"), OLDER)


@pytest.mark.parametrize("name", CASES)
def test_the_engine_serves_what_was_mended(name: str, sound: Path, peers_dir: Path, tmp_path: Path) -> None:
    mending, left = mended(name, sound, tmp_path)
    assert bool(left) == (name in LEFT)
    check_served(NAME, mending.root, peers_dir, tmp_path, is_cut=name in CUTS, is_crashed=name in CRASHED)


@pytest.mark.parametrize("name", sorted(DEFAULT - {"missing CommitLog", "missing index"}))
def test_an_older_engine_serves_what_was_mended(name: str, older: Path, peers_dir: Path, tmp_path: Path) -> None:
    """Of each kind of mend one. The store has two files of each kind: a missing one is the last
    one."""
    mending, left = mended(name, older, tmp_path, OLDER)
    is_cut = bool(left) and name in CUTS
    check_served(OLDER, mending.root, peers_dir, tmp_path, is_cut=is_cut, is_crashed=name in CRASHED)


@pytest.mark.parametrize("name", UNREADABLE)
def test_the_engine_serves_what_a_disk_could_not_read(name: str, sound: Path, peers_dir: Path, tmp_path: Path) -> None:
    check_served(NAME, mended_unreadable(name, sound, tmp_path).root, peers_dir, tmp_path)


def check_served(
    name: str, root: Path, peers: Path, work: Path, *, is_cut: bool = False, is_crashed: bool = False
) -> None:
    """The engine serves all messages of a golden store, by queue and by key. One that starts with
    the file abort answers by key from the IndexFiles that it has then, among them those that the
    checkpoint vouches for."""
    lines = dump(peers, name, root, work, keep=work / "kept")
    manifest = golden.manifest(name)
    messages = manifest["messages"][: -1 if is_cut else None]
    assert lines["store"][0]["loaded"] is True
    assert lines["message"] == messages
    offsets = {message["physicalOffset"] for message in messages}
    fields = ("topic", "queueId", "queueOffset", "physicalOffset", "size", "tagsCode", "read")
    entries = [entry for entry in manifest["entries"] if entry[3] in offsets]
    assert [[entry[field] for field in fields] for entry in lines["entry"]] == entries
    if is_crashed:
        check_keys_after_crash(name, root, work / "kept", lines)
        return
    for query, told in zip(manifest["queries"], lines["query"], strict=True):
        assert told["physicalOffsets"] == [at for at in query["physicalOffsets"] if at in offsets]


def check_keys_after_crash(name: str, root: Path, kept: Path, lines: Lines) -> None:
    """The IndexFiles that the checkpoint vouches for are kept, their keys are answered, and every
    answer is that of the IndexFiles."""
    vouched_ms = StoreCheckpoint.unpack((root / "checkpoint").read_bytes()).index_msg_timestamp_ms
    vouched_end = 0
    for path in sorted((root / "index").iterdir()):
        with Env().open_read(str(path)) as file:
            header = read_header(file)
        if header.end_timestamp_ms <= vouched_ms:
            assert (kept / "index" / path.name).read_bytes() == path.read_bytes()
            vouched_end = header.end_phy_offset
    assert vouched_end
    with IndexService(str(kept / "index"), config_of(name)) as service:
        for query, told in zip(golden.manifest(name)["queries"], lines["query"], strict=True):
            assert {at for at in query["physicalOffsets"] if at < vouched_end} <= {*told["physicalOffsets"]}
            assert told["physicalOffsets"] == answer_of_engine(service, query, 0)[0]


@pytest.mark.parametrize("name", WITHOUT_REPLICA)
def test_the_engine_serves_what_was_recovered(name: str, sound: Path, peers_dir: Path, tmp_path: Path) -> None:
    mending, kept = recovered(name, sound, tmp_path)
    check_recovered(mending, kept, peers_dir, tmp_path)


def test_the_engine_serves_what_a_disk_could_read(sound: Path, peers_dir: Path, tmp_path: Path) -> None:
    mending = mended_unreadable("CommitLog", sound, tmp_path, has_replica=False)
    check_recovered(mending, as_they_were(mending.root, sound), peers_dir, tmp_path)


def check_recovered(mending: Mending, kept: dict[int, bytes], peers: Path, work: Path) -> None:
    """The engine serves the messages `kept`, by queue and by key."""
    lines = dump(peers, NAME, mending.root, work)
    manifest = golden.manifest(NAME)
    assert lines["store"][0]["loaded"] is True
    served = [message for message in lines["message"] if message["topic"] != "LOGDEX_LOST"]
    assert served == [message for message in manifest["messages"] if message["physicalOffset"] in kept]
    places = {(entry[0], entry[1], entry[2]): entry[3] for entry in manifest["entries"] if entry[3] in kept}
    read = {
        (entry["topic"], entry["queueId"], entry["queueOffset"]): entry["physicalOffset"]
        for entry in lines["entry"]
        if entry["physicalOffset"] in kept
    }
    assert places.items() <= read.items()
    for query, told in zip(manifest["queries"], lines["query"], strict=True):
        # The engine's times are to the second, from where a file begins, and files begin elsewhere.
        if query["begin"] == 0 and query["end"] > manifest["messages"][-1]["storeTimestamp"]:
            assert {at for at in query["physicalOffsets"] if at in kept} <= {*told["physicalOffsets"]}


@pytest.mark.parametrize("name", [NAME, OLDER])
def test_the_engine_serves_a_message_that_was_put_again(
    name: str, sound: Path, older: Path, peers_dir: Path, tmp_path: Path
) -> None:
    """Where its queue and its keys lead now."""
    mending, message = put_again(sound if name == NAME else older, tmp_path, name)
    offset = mending.put_again[message.physical_offset]["physical_offset"]
    topic = message.topic.decode()
    asked = [question(topic, key.decode()) for key in message.keys]
    lines = dump(peers_dir, name, mending.root, tmp_path, asked=asked)
    assert lines["store"][0]["loaded"] is True
    manifest = golden.manifest(name)
    places = {tuple(entry[:3]): entry[3] for entry in manifest["entries"]}
    places[topic, message.queue_id, message.queue_offset] = offset
    told = {(row["topic"], row["queueId"], row["queueOffset"]): row["physicalOffset"] for row in lines["entry"]}
    assert told == places
    assert {row["physicalOffset"] for row in lines["message"]} == {
        offset,
        *(row["physicalOffset"] for row in manifest["messages"]),
    }
    assert all(offset in row["physicalOffsets"] for row in lines["query"])


def test_the_engine_serves_what_has_a_right_property_crc_again(peers_dir: Path, tmp_path: Path) -> None:
    mending = mended_property_crc(property_crc_store(tmp_path), tmp_path)
    messages: list[StoredMessage] = [message for *_, message in Store(mending.root, NAME).messages]
    asked = [question(message.topic.decode(), key.decode()) for message in messages for key in message.keys[:1]]
    lines = dump(peers_dir, NAME, mending.root, tmp_path, asked=asked)
    assert lines["store"][0]["loaded"] is True
    offsets = [message.physical_offset for message in messages]
    assert [row["physicalOffset"] for row in lines["message"]] == offsets
    assert sorted(row["physicalOffset"] for row in lines["entry"]) == offsets
    assert [row["physicalOffsets"] for row in lines["query"]] == [[offset] for offset in offsets]


def question(topic: str, key: str) -> dict[str, Any]:
    return {"topic": topic, "key": key, "max": 64, "begin": 0, "end": 1 << 62, "indexType": ""}
