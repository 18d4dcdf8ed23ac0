"""What `verify` prints to mend a finding is carried out, for every harm; then the real engine
starts on the store and serves every message, by queue and by key."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.rocketmq.test_mends import CASES, LEFT, WITHOUT_REPLICA, mended, recovered, sound_store
from tests.golden import rocketmq as golden
from tests.interop.rocketmq.test_real_engine import dump
from tests.unit.rocketmq.verify.test_harm import NAME

pytestmark = [pytest.mark.needs_java, pytest.mark.slow, pytest.mark.timeout(600)]

CUTS = {"zeroed tail", "last body"}
"""Where the mend says that a broker's next start cuts the log: the last message goes, as it
says."""


CRASHED = {"abort", "a directory for abort"}
"""With the file abort the engine drops IndexFiles that its checkpoint does not vouch for, and with
them keys."""


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sound_store(tmp_path_factory.mktemp("sound"))


@pytest.mark.parametrize("name", CASES)
def test_the_engine_serves_what_was_mended(name: str, sound: Path, peers_dir: Path, tmp_path: Path) -> None:
    mending, left = mended(name, sound, tmp_path)
    assert bool(left) == (name in LEFT)
    lines = dump(peers_dir, NAME, mending.root, tmp_path)
    manifest = golden.manifest(NAME)
    messages = manifest["messages"][: -1 if name in CUTS else None]
    assert lines["store"][0]["loaded"] is True
    assert lines["message"] == messages
    offsets = {message["physicalOffset"] for message in messages}
    fields = ("topic", "queueId", "queueOffset", "physicalOffset", "size", "tagsCode", "read")
    entries = [entry for entry in manifest["entries"] if entry[3] in offsets]
    assert [[entry[field] for field in fields] for entry in lines["entry"]] == entries
    if name in CRASHED:
        return
    for query, told in zip(manifest["queries"], lines["query"], strict=True):
        assert told["physicalOffsets"] == [at for at in query["physicalOffsets"] if at in offsets]


@pytest.mark.parametrize("name", WITHOUT_REPLICA)
def test_the_engine_serves_what_was_recovered(name: str, sound: Path, peers_dir: Path, tmp_path: Path) -> None:
    mending, kept = recovered(name, sound, tmp_path)
    lines = dump(peers_dir, NAME, mending.root, tmp_path)
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
        if (
            query["begin"] == 0
        ):  # the engine's times are to the second, from where a file begins, and files begin elsewhere
            assert {at for at in query["physicalOffsets"] if at in kept} <= {*told["physicalOffsets"]}
