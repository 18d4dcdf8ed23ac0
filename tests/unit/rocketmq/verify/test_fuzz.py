"""Whatever is harmed: verify ends, raises nothing for it, says the same twice, writes nothing, and
stays small."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from logdex.io.env import Env
from logdex.rocketmq import Message, MessageStore
from logdex.rocketmq.settings.store_config import StoreConfig
from logdex.rocketmq.verify import VerifyReport, verify
from tests.directories import contents, tree_hash
from tests.examples import every, examples
from tests.golden import rocketmq as golden
from tests.memory import peak_bytes
from tests.unit.rocketmq.verify.store_harm import Store

NAMES = ("tiny-5.5.0", "tiny-4.7.0", "tiny-torn", "tiny-expired")
SHARES_OF_A_FILE = (0.0, 0.001, 0.1, 0.33, 0.5, 0.77, 0.99, 0.9999)


def unpacked(name: str, tmp_path: Path) -> Store:
    return Store(golden.unpack(name, tmp_path / name), name)


def run(store: Store) -> VerifyReport:
    env = Env()
    report = verify(str(store.root), store.config, env=env, max_findings=50)
    assert env.counters.written_bytes == 0
    assert len(report.findings) <= 50
    places = [(finding.path, finding.position) for finding in report.findings]
    assert places == sorted(set(places))
    return report


def flip_many(store: Store, seeds: range) -> None:
    """One to four flips a seed, put back after the look."""
    files = [path for path in sorted(store.root.rglob("*")) if path.is_file() and path.stat().st_size]
    before = contents(store.root)
    for seed in seeds:
        rng = random.Random(seed)
        path = rng.choice(files)
        data = path.read_bytes()
        harmed = bytearray(data)
        for _ in range(rng.randint(1, 4)):
            harmed[rng.randrange(len(harmed))] ^= rng.randrange(1, 256)
        path.write_bytes(harmed)
        run(store)
        path.write_bytes(data)
    assert contents(store.root) == before


@pytest.mark.parametrize("name", NAMES)
def test_flips(name: str, tmp_path: Path) -> None:
    flip_many(unpacked(name, tmp_path), range(examples(75)))


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", NAMES)
def test_many_flips(name: str, tmp_path: Path) -> None:
    """With LOGDEX_TEST_SEEDS=all ten thousand, over the stores."""
    flip_many(unpacked(name, tmp_path), every(5, range(1000, 3500)))


def cut_all(store: Store, shares: tuple[float, ...]) -> None:
    for path in sorted(store.root.rglob("*")):
        if not path.is_file():
            continue
        data = path.read_bytes()
        for size in sorted({int(len(data) * share) for share in shares} | {max(len(data) - 1, 0)}):
            path.write_bytes(data[:size])
            report = run(store)
            is_derived = path.parent.name == "index" or path.parent.parent.parent.name == "consumequeue"
            if len(data) > size > 0 and (is_derived or path.parent.name == "commitlog"):
                assert [finding.path for finding in report.findings if finding.path == str(path)], (path, size)
        path.write_bytes(data)


@pytest.mark.parametrize("name", ["tiny-4.7.0", "tiny-torn"])
def test_cuts(name: str, tmp_path: Path) -> None:
    cut_all(unpacked(name, tmp_path), SHARES_OF_A_FILE)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_many_cuts_of_a_log(tmp_path: Path) -> None:
    store = unpacked("tiny-torn", tmp_path)
    path = store.root / store.messages[0][0]
    data = path.read_bytes()
    for size in every(3, range(len(data) - 1, -1, -1)):
        store.cut(str(path.relative_to(store.root)), size)
        run(store)


@pytest.mark.parametrize("seed", range(4))
def test_garbage_in_a_whole_file(seed: int, tmp_path: Path) -> None:
    store = unpacked("tiny-5.5.0", tmp_path)
    rng = random.Random(seed)
    for folder in ("index", "consumequeue", "commitlog"):
        path = rng.choice([path for path in sorted((store.root / folder).rglob("*")) if path.is_file()])
        path.write_bytes(rng.randbytes(path.stat().st_size))
        assert run(store).findings


def test_same_twice_and_the_store_is_as_before(tmp_path: Path) -> None:
    store = unpacked("tiny-5.5.0", tmp_path)
    for folder in ("commitlog", "consumequeue", "index"):
        for path in sorted(path for path in (store.root / folder).rglob("*") if path.is_file()):
            store.change(str(path.relative_to(store.root)), path.stat().st_size // 3, 255)
    before = tree_hash(store.root)
    first, second = run(store), run(store)
    assert first.findings
    assert (first.findings, first.infos) == (second.findings, second.infos)
    assert tree_hash(store.root) == before


def test_memory_does_not_follow_the_number_of_findings(tmp_path: Path) -> None:
    store = unpacked("tiny-5.5.0", tmp_path)
    for path in (store.root / "index").iterdir():
        path.write_bytes(b"\x7f" * path.stat().st_size)
    report = run(store)
    assert len(report.findings) == 50
    assert report.truncated > 50
    assert peak_bytes(lambda: run(store)) < 32 << 20


def peak_of_verify(root: Path, messages: int) -> int:
    sizes: dict[str, Any] = {"mapped_file_size_commit_log": 4 << 20, "max_hash_slot_num": 1000, "max_index_num": 4000}
    with MessageStore.open(root, background=False, **sizes) as store:
        for number in range(messages):
            store.put_message(Message("t", b"v" * 4000, keys=f"k{number}", queue_id=0))
        store.dispatch()

    def check() -> None:
        assert verify(root, StoreConfig(**sizes)).messages == messages

    check()  # what is loaded at the first look stays
    return peak_bytes(check)


@pytest.mark.slow
def test_memory_does_not_follow_the_size_of_the_log(tmp_path: Path) -> None:
    """16 MB, and 64 MB."""
    once, four_times = peak_of_verify(tmp_path / "once", 4096), peak_of_verify(tmp_path / "four", 16384)
    assert four_times < once * 1.5
