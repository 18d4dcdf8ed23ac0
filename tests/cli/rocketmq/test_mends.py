"""What `verify` prints to mend a finding is carried out, for every harm: nothing is found then, and
nothing is lost."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import logdex.rocketmq.verify
from logdex.errors import StorageError
from logdex.io.env import Env
from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot
from logdex.rocketmq.verify import CHECKS
from tests.examples import cases
from tests.golden import rocketmq as golden
from tests.mending import Finding, Mending, unknown_mends
from tests.unit.rocketmq.verify.store_harm import Store, config_of
from tests.unit.rocketmq.verify.test_harm import HARMS, NAME, Expected

Harm = Callable[[Store], object]

ELSEWHERE = {
    "message-property-crc": "no golden store has the property; its mend is that of a wrong body",
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


MORE: dict[str, tuple[str, Harm]] = {
    "a directory for a queue file": ("unreadable", queue_directory),
    "a directory for a CommitLog file": ("unreadable", directory_for(f"commitlog/{0:020d}")),
    "a directory for the checkpoint": ("unreadable", directory_for("checkpoint")),
    "a directory for topics.json": ("unreadable", directory_for("config/topics.json")),
    "a directory for abort": ("abort", directory_for("abort")),
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


def flags() -> tuple[str, ...]:
    """The settings that no file states, as flags: the mends must repeat them."""
    config = config_of(NAME)
    sizes = {
        "--mapped-file-size-commit-log": config.mapped_file_size_commit_log,
        "--mapped-file-size-consume-queue": config.mapped_file_size_consume_queue,
        "--max-hash-slot-num": config.max_hash_slot_num,
        "--max-index-num": config.max_index_num,
        "--rocketmq-version": "5.5.0",
    }
    return tuple(str(word) for pair in sizes.items() for word in pair)


def sound_store(folder: Path) -> Path:
    """The store before any harm. It has the files that some harms make unreadable."""
    root = golden.unpack(NAME, folder)
    (root / "config").mkdir(exist_ok=True)
    (root / "config" / "topics.json").write_text("{}")
    return root


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sound_store(tmp_path_factory.mktemp("sound"))


def bodies(root: Path) -> dict[int, bytes]:
    """All messages up to the end of the log, by physical offset."""
    with StoreSnapshot(root, config=config_of(NAME)) as snapshot:
        return {message.physical_offset: message.body for message in snapshot.scan()}


def mended(name: str, sound: Path, tmp_path: Path) -> tuple[Mending, list[Finding]]:
    """A store of which the harm `name` is mended, and what is found then."""
    root = Path(shutil.copytree(sound, tmp_path / "a store"))
    CASES[name](Store(root, NAME))
    mending = Mending(root, sound, tmp_path, flags())
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
    after, whole = bodies(root), bodies(sound)
    return mending, {at: body for at, body in after.items() if whole.get(at) == body}


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
    """The superuser may list all directories, so the mode is looked at here."""
    root = Path(shutil.copytree(sound, tmp_path / "a store"))
    store = Store(root, NAME)
    queue = (root / store.queue_entry(store.plain_message()[2])[0]).parent
    list_dir = Env.list_dir

    def listed(env: Env, path: str) -> list[str]:
        if path == str(queue) and not queue.stat().st_mode & 0o400:
            raise StorageError("cannot be listed", path=path)
        return list_dir(env, path)

    monkeypatch.setattr(Env, "list_dir", listed)
    queue.chmod(0o300)
    mending = Mending(root, sound, tmp_path, flags())
    found = next(each for each in mending.verify() if each["path"] == str(queue))
    assert found["check"] == "unreadable"
    mending.carry_out(found)
    assert mending.mends == ["check its owner, its mode and the disk"]
    assert mending.verify() == []
