"""Random harm to small logs: every batch that is still whole, wherever it lies, is in what recover
makes of them, and that is clean. What only looks like a batch inside a damaged one (a message of a
wrapper) is none."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from logdex.kafka.recover import recover
from logdex.kafka.verify import verify
from tests.examples import examples
from tests.golden import kafka as golden
from tests.unit.kafka.batch.batch_bytes import whole_batches

STORES = [name for name in golden.NAMES if name.startswith("tiny-")]
SEEDS = examples(60)


def every_batch(root: Path) -> Iterator[tuple[str, bytes]]:
    """(partition, bytes) of each whole batch at any position of a .log, what was put aside
    included."""
    for path in sorted(root.rglob("*.log")):
        for _, raw in whole_batches(path.read_bytes()):
            yield path.relative_to(root).parts[0], raw


def harm(raw: bytearray, rng: random.Random) -> None:
    """One of the things that happen to files."""
    at, size = rng.randrange(len(raw)), rng.randint(1, 600)
    kind = rng.choice(("flip", "flip", "cut", "zeros", "insert", "remove", "twice", "swap"))
    if kind == "flip":
        raw[at] ^= 1 << rng.randrange(8)
    elif kind == "cut":
        del raw[at:]
    elif kind == "zeros":
        raw[at : at + size] = bytes(len(raw[at : at + size]))
    elif kind == "insert":
        raw[at:at] = rng.randbytes(size)
    elif kind == "remove":
        del raw[at : at + size]
    elif kind == "twice":
        raw[at:at] = raw[max(at - 4 * size, 0) : at]
    else:
        raw[:] = raw[at:] + raw[:at]


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {name: golden.unpack(name, tmp_path_factory.mktemp(name)) for name in STORES}


def check_seed(seed: int, stores: dict[str, Path], tmp_path: Path) -> None:
    rng = random.Random(seed)
    whole = stores[rng.choice(STORES)]
    root = shutil.copytree(whole, tmp_path / f"harmed-{seed}")
    logs = [path for path in sorted(root.rglob("*.log")) if path.stat().st_size]
    for path in rng.choices(logs, k=rng.randint(1, 4)):
        raw = bytearray(path.read_bytes())
        if raw:
            harm(raw, rng)
            path.write_bytes(raw)
    output = tmp_path / f"recovered-{seed}"
    report = recover(str(root), str(output), sync=False)
    of_the_log, there = set(every_batch(whole)), set(every_batch(output))
    assert [each for each in every_batch(root) if each in of_the_log and each not in there] == []
    # no checksum covers a leader epoch, and batches keep their bytes: it stays to be told of
    findings = [each for each in verify(str(output)).findings if each.check != "batch-leader-epoch"]
    assert findings == []
    assert report.lossy == (any(each.is_loss for each in report.skipped) or bool(report.losses))
    assert of_the_log - there if report.losses else True  # the checkpoints tell of a lost end only if one is
    shutil.rmtree(root)
    shutil.rmtree(output)


@pytest.mark.parametrize("part", range(6))
def test_every_valid_batch_is_saved(part: int, stores: dict[str, Path], tmp_path: Path) -> None:
    for seed in range(part * SEEDS // 6, (part + 1) * SEEDS // 6):
        check_seed(seed, stores, tmp_path)


@pytest.mark.slow
def test_every_valid_batch_is_saved_of_many(stores: dict[str, Path], tmp_path: Path) -> None:
    for seed in range(1_000, 1_600):
        check_seed(seed, stores, tmp_path)


def test_batches_keep_their_bytes(stores: dict[str, Path], tmp_path: Path) -> None:
    """Nothing comes from nowhere: what is in the output was in the input."""
    check: Callable[[Path], set[tuple[str, bytes]]] = lambda root: set(every_batch(root))  # noqa: E731
    for name, root in stores.items():
        recover(str(root), str(tmp_path / name), sync=False)
        assert check(tmp_path / name) == check(root)
