"""What `verify` prints to mend a finding is carried out, for every harm: nothing is found then, and
nothing is lost."""

from __future__ import annotations

import shutil
import struct
from base64 import b64decode
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import logdex.rocketmq.verify
from logdex.io.env import Env
from logdex.kernels.rocketmq.property_crc import property_crc_of
from logdex.layout.rocketmq import MESSAGE_HEAD
from logdex.limits import CONFIG_FILE_SIZE_BYTES_MAX
from logdex.rocketmq.message.stored_message import StoredMessage
from logdex.rocketmq.rebuild import rebuild
from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot
from logdex.rocketmq.verify import CHECKS
from logdex.testing import BadSectorsEnv
from logdex.testing.store_builder import write_commit_log
from tests.cli.helpers import run_json
from tests.examples import cases
from tests.golden import rocketmq as golden
from tests.mending import PUT_AGAIN, Finding, Mending, let_mode_decide, unknown_mends
from tests.unit.rocketmq.verify.store_harm import Store, config_of, walk
from tests.unit.rocketmq.verify.test_harm import HARMS, NAME, Expected
from tests.unit.rocketmq.verify.test_verify import messages

Harm = Callable[[Store], object]

PAGE = 4096
PROPERTY_CRC_SIZE_BYTES = 20

ELSEWHERE = {
    "message-property-crc": "test_a_wrong_property_crc_is_mended: no golden store has the property",
    "unfinished-publication": "tests/crash and tests/interop run the command again that was killed",
}


def directory_for(name: str) -> Harm:
    """A directory in the place of a file."""

    def harm(store: Store) -> None:
        (store.root / name).unlink(missing_ok=True)
        (store.root / name).mkdir(parents=True)

    return harm


def queue_directory(store: Store) -> None:
    directory_for(store.queue_entry(store.plain_message()[2])[0])(store)


def config_with_backup(store: Store) -> None:
    folder = store.root / "config"
    folder.mkdir(exist_ok=True)
    (folder / "topics.json").write_bytes(b'{"a":{1:2}')
    (folder / "topics.json.bak").write_bytes(b"{}")


def renamed(store: Store) -> None:
    (store.root / f"commitlog/{1 << 15:020d}").rename(store.root / f"commitlog/{1:020d}")


def other_file(store: Store) -> None:
    (store.root / "commitlog" / ".DS_Store").write_bytes(bytes(6148))


def other_queue_file(store: Store) -> None:
    file = store.root / store.queue_entry(store.plain_message()[2])[0]
    file.with_name(".DS_Store").write_bytes(bytes(6148))


def too_long_config(store: Store) -> None:
    with (store.root / "config/topics.json").open("wb") as file:
        file.truncate(CONFIG_FILE_SIZE_BYTES_MAX + 1)


MORE: dict[str, tuple[str, Harm]] = {
    "a directory for a queue file": ("unreadable", queue_directory),
    "a directory for a CommitLog file": ("unreadable", directory_for(f"commitlog/{0:020d}")),
    "a directory for the checkpoint": ("unreadable", directory_for("checkpoint")),
    "a directory for topics.json": ("unreadable", directory_for("config/topics.json")),
    "a directory for abort": ("abort", directory_for("abort")),
    "too long topics.json": ("unreadable", too_long_config),
    "config, with a backup": ("config-json", config_with_backup),
    "renamed CommitLog": ("commit-log-name", renamed),
    "other file": ("commit-log-other-file", other_file),
    "other queue file": ("consume-queue-other-file", other_queue_file),
}
LEFT = {
    "filler size": "filler",
    "behind the log": "commit-log-stray-bytes",
    "behind the index": "index-stray-bytes",
    "zeroed tail": "torn-tail",
    "last body": "message-crc",
}
"""The harms after which verify says that there is nothing to do, and what is still found."""
DEFAULT = {"queue id", "body", "zeroed entry", "missing queue", "index hash", "missing index", "cut index"}
DEFAULT |= {"checkpoint time", "config", "abort", "lock", "zeroed tail", "behind the index", "missing CommitLog"}
DEFAULT |= {"a directory for a queue file", "config, with a backup", "cut queue", "index slot", "filler size"}
DEFAULT |= {"renamed CommitLog", "other file"}
"""Those of the default run: each mend once. `scripts/test --all` takes all."""

CASES: dict[str, Harm] = {**HARMS, **{name: harm for name, (_, harm) in MORE.items()}}


def flags(name: str = NAME) -> tuple[str, ...]:
    """The settings that no file states, as flags: the mends must repeat them."""
    config = config_of(name)
    sizes = {
        "--mapped-file-size-commit-log": config.mapped_file_size_commit_log,
        "--mapped-file-size-consume-queue": config.mapped_file_size_consume_queue,
        "--max-hash-slot-num": config.max_hash_slot_num,
        "--max-index-num": config.max_index_num,
        "--rocketmq-version": golden.manifest(name)["rocketmq"],
    }
    return tuple(str(word) for pair in sizes.items() for word in pair)


def sound_store(folder: Path, name: str = NAME) -> Path:
    """The store before any harm. It has the files that some harms make unreadable."""
    root = golden.unpack(name, folder)
    (root / "config").mkdir(exist_ok=True)
    (root / "config" / "topics.json").write_text("{}")
    return root


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sound_store(tmp_path_factory.mktemp("sound"))


def bodies(root: Path) -> dict[int, bytes]:
    """All messages up to the end of the log, by physical offset."""
    with StoreSnapshot(root, config=config_of(NAME)) as snapshot:  # the versions' messages are the same
        return {message.physical_offset: message.body for message in snapshot.scan()}


def mended(name: str, sound: Path, tmp_path: Path, store_name: str = NAME) -> tuple[Mending, list[Finding]]:
    """A store of which the harm `name` is mended, and what is found then."""
    root = Path(shutil.copytree(sound, tmp_path / "a store"))
    CASES[name](Store(root, store_name))
    mending = Mending(root, sound, tmp_path, flags(store_name))
    whole = bodies(sound)
    before = {} if name in MORE else {at: body for at, body in bodies(root).items() if whole.get(at) == body}
    assert mending.verify(), "nothing is found"
    left = mending.mend()
    after = bodies(root)
    assert before.items() <= after.items()
    if name not in LEFT:
        assert after == whole
    return mending, left


WITHOUT_REPLICA = ["size", "magic", "stored CRC", "body", "topic length", "delay", "filler magic", "zeroed message"]
WITHOUT_REPLICA += ["cut CommitLog", "missing CommitLog", "a directory for a CommitLog file"]
"""The harms of the log before its end, for which verify names `recover` where there is no
replica."""


def recovered(name: str, sound: Path, tmp_path: Path) -> tuple[Mending, dict[int, bytes]]:
    """A store of which the harm `name` is mended without a replica, and what a broker must serve:
    the messages that are as they were."""
    root = Path(shutil.copytree(sound, tmp_path / "a store"))
    CASES[name](Store(root, NAME))
    mending = Mending(root, sound, tmp_path, flags(), has_replica=False)
    before = mending.verify()
    assert any(finding["mend"].startswith("logdex recover ") for finding in before), before
    assert mending.mend() == []
    assert any(mend.startswith("logdex recover ") for mend in mending.mends)
    return mending, as_they_were(root, sound)


def as_they_were(root: Path, sound: Path) -> dict[int, bytes]:
    """The messages of a store that are where they were before the harm."""
    whole = bodies(sound)
    return {at: body for at, body in bodies(root).items() if whole.get(at) == body}


UNREADABLE: dict[str, Callable[[Store], tuple[str, int]]] = {
    "CommitLog": lambda _: (f"commitlog/{1 << 15:020d}", 2 * PAGE),
    "ConsumeQueue": lambda store: (store.queue_entry(store.plain_message()[2])[0], 0),
    "IndexFile": lambda store: (store.index(1), 0),
    "checkpoint": lambda _: ("checkpoint", 0),
    "topics.json": lambda _: ("config/topics.json", 0),
}
"""Files, and where in them the disk cannot read a sector."""


def mended_unreadable(name: str, sound: Path, tmp_path: Path, *, has_replica: bool = True) -> Mending:
    """A store of which the disk cannot read a sector, mended to another disk. All messages are
    there, but without a replica those of the page with the sector."""
    root = Path(shutil.copytree(sound, tmp_path / "a store"))
    file, at = UNREADABLE[name](Store(root, NAME))
    mending = Mending(root, sound, tmp_path, flags(), has_replica)
    with pytest.MonkeyPatch.context() as patch:
        disk = BadSectorsEnv({str(root / file): [(at, at + 16)]})
        patch.setattr(Env, "open_read", lambda _, path: disk.open_read(path))
        [finding] = [each for each in mending.verify() if each["path"] == str(root / file)]
        mending.carry_out(finding)
    assert finding["check"] == "unreadable"
    assert mending.mend() == []
    whole = bodies(sound)
    if name == "CommitLog" and not has_replica:
        for path, start, message in Store(sound, NAME).messages:
            if path == file and start < at + PAGE and start + message.size_bytes > at:
                del whole[message.physical_offset]
    assert whole.items() <= bodies(root).items()
    return mending


@pytest.mark.parametrize("name", cases(UNREADABLE, 2))
def test_what_the_disk_cannot_read_is_mended(name: str, sound: Path, tmp_path: Path) -> None:
    mending = mended_unreadable(name, sound, tmp_path)
    ways = {"checkpoint": "move the checkpoint away", "CommitLog": "restore this file", "topics.json": "restore this"}
    assert mending.mends[0].startswith(ways.get(name, "logdex rebuild "))


def test_without_a_replica_all_is_recovered_that_the_disk_can_read(sound: Path, tmp_path: Path) -> None:
    mending = mended_unreadable("CommitLog", sound, tmp_path, has_replica=False)
    assert mending.mends[0].startswith("logdex recover ")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in DEFAULT else pytest.mark.slow) for name in CASES]
)
def test_a_mend_mends(name: str, sound: Path, tmp_path: Path) -> None:
    mending, left = mended(name, sound, tmp_path)
    assert [finding["check"] for finding in left] == ([LEFT[name]] if name in LEFT else [])
    commands = [mend for mend in mending.mends if mend.startswith("logdex ")]
    assert all(f" {' '.join(flags())}" in mend for mend in commands)


@pytest.mark.parametrize("name", cases(WITHOUT_REPLICA, 5, first=3))
def test_without_a_replica_a_damaged_log_is_recovered(name: str, sound: Path, tmp_path: Path) -> None:
    """All but the messages that the harm hit, or that the missing file held, stay where they
    were."""
    _, kept = recovered(name, sound, tmp_path)
    whole = bodies(sound)
    lost = [at for at in whole if at not in kept]
    if name in ("missing CommitLog", "a directory for a CommitLog file", "cut CommitLog"):
        assert {at // config_of(NAME).mapped_file_size_commit_log for at in lost} == {lost[0] // (1 << 15)}
    else:
        assert len(lost) <= 1


def repeat_offset(store: Store) -> StoredMessage:
    """The last message of a queue states a queue offset that one before has, and has no entry.
    Returns the message as it was."""
    lasts = {(message.topic, message.queue_id): row for row in store.messages if (message := row[2]).is_queued}
    path, at, message = next(row for row in lasts.values() if row[2].keys and row[2].queue_offset > 2)
    store.write(path, at + MESSAGE_HEAD.offset_of("queue_offset"), struct.pack(">q", message.queue_offset - 2))
    store.write(*store.queue_entry(message), bytes(20))
    return message


def put_again(sound: Path, tmp_path: Path, store_name: str = NAME) -> tuple[Mending, StoredMessage]:
    """A store in which a message was put again that no queue has an entry of, as no replica has
    another copy, and the message as it was before the harm. The old one stays in the log."""
    root = Path(shutil.copytree(sound, tmp_path / "a store"))
    message = repeat_offset(Store(root, store_name))
    mending = Mending(root, Path(shutil.copytree(root, tmp_path / "replica")), tmp_path, flags(store_name))
    found = mending.verify()
    assert [each["check"] for each in found] == ["message-queue-offset"]
    assert mending.mend() == found
    assert list(mending.put_again) == [message.physical_offset]
    return mending, message


def test_a_message_is_put_again(sound: Path, tmp_path: Path) -> None:
    mending, message = put_again(sound, tmp_path)
    new = mending.put_again[message.physical_offset]
    assert bodies(mending.root) == {**bodies(sound), new["physical_offset"]: message.body}
    place = ("--topic", message.topic.decode(), "--queue", message.queue_id, "--offset", message.queue_offset)
    [served] = run_json("get", mending.root, *place, "--count", 1, *flags())
    assert served["physical_offset"] == new["physical_offset"]
    assert (b64decode(served["body"]), served["tags"].encode()) == (message.body, message.tags)
    for key in message.keys:
        asked = ("query", mending.root, "--topic", message.topic.decode(), "--key", key.decode(), *flags())
        assert new["physical_offset"] in [row["physical_offset"] for row in run_json(*asked)]


@pytest.mark.slow
def test_a_message_whose_queue_offset_a_replica_has_is_restored(sound: Path, tmp_path: Path) -> None:
    root = Path(shutil.copytree(sound, tmp_path / "a store"))
    repeat_offset(Store(root, NAME))
    mending = Mending(root, sound, tmp_path, flags())
    assert mending.mend() == []
    assert mending.mends[0].startswith(PUT_AGAIN)
    assert mending.put_again == {}
    assert bodies(root) == bodies(sound)


def property_crc_store(folder: Path) -> Path:
    """A store whose messages have the property __CRC32#, which no golden store has."""
    rows = [replace(row, properties_raw=row.properties_raw + bytes(PROPERTY_CRC_SIZE_BYTES)) for row in messages(120)]
    root, config = folder / "store", config_of(NAME)
    write_commit_log(str(root), rows, config.mapped_file_size_commit_log)
    for path in (root / "commitlog").iterdir():
        data = bytearray(path.read_bytes())
        for at, message in walk(path):
            end = at + message.size_bytes
            head = bytes(data[at : end - PROPERTY_CRC_SIZE_BYTES])
            data[at:end] = head + property_crc_of(head)
        path.write_bytes(data)
    rebuild(str(root), str(root), config, in_place=True, sync=False)
    return root


def mended_property_crc(sound: Path, tmp_path: Path) -> Mending:
    """A store of which a message's birth time, which nothing but the property covers, is
    mended."""
    root = Path(shutil.copytree(sound, tmp_path / "a store"))
    store = Store(root, NAME)
    path, at, _ = store.messages[40]
    store.change(path, at + MESSAGE_HEAD.offset_of("born_timestamp_ms") + 7)
    mending = Mending(root, sound, tmp_path, flags())
    assert [each["check"] for each in mending.verify()] == ["message-property-crc"]
    assert mending.mend() == []
    assert Store(root, NAME).messages == Store(sound, NAME).messages
    return mending


def test_a_wrong_property_crc_is_mended(tmp_path: Path) -> None:
    mended_property_crc(property_crc_store(tmp_path), tmp_path)


def test_every_check_has_a_case(tmp_path: Path) -> None:
    """A check whose mend is carried out by no case here fails this test."""
    store = Store(golden.unpack(NAME, tmp_path), NAME)
    found = {check for check, _ in MORE.values()} | set(ELSEWHERE)
    for path in sorted(store.root.rglob("*")):
        if path.is_file():
            path.chmod(0o600)
    originals = {path: path.read_bytes() for path in store.root.rglob("*") if path.is_file()}
    for harm in HARMS.values():
        expected: Expected = harm(store)
        found.add(expected[0])
        for path in store.root.rglob("*"):
            if path.is_file() and path not in originals:
                path.unlink()
        for path, data in originals.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            if not path.exists() or path.read_bytes() != data:
                path.write_bytes(data)
    assert found == set(CHECKS)


def test_every_mend_is_one_that_these_tests_carry_out() -> None:
    assert unknown_mends(logdex.rocketmq.verify) == []


def test_a_directory_that_must_not_be_listed_is_mended(
    sound: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = Path(shutil.copytree(sound, tmp_path / "a store"))
    store = Store(root, NAME)
    queue = (root / store.queue_entry(store.plain_message()[2])[0]).parent
    let_mode_decide(monkeypatch, "list_dir", queue)
    queue.chmod(0o300)
    mending = Mending(root, sound, tmp_path, flags())
    found = next(each for each in mending.verify() if each["path"] == str(queue))
    assert found["check"] == "unreadable"
    mending.carry_out(found)
    assert mending.mends == ["check its owner, its mode and the disk"]
    assert mending.verify() == []
