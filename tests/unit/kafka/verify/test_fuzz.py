"""Every file of a small log directory flipped and cut at random: verify raises nothing, tells of
every flip where a checksum or another file can show it, and stays read-only; recover of it is
clean."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from logdex.kafka.key_index.build import build_key_index
from logdex.kafka.recover import recover
from logdex.kafka.verify import verify
from tests.examples import every, examples
from tests.unit.kafka.verify.log_harm import CONFIG, FIRST, run

SHOWN = {".log", ".index", ".timeindex", ".txnindex", ".snapshot", ".keyindex"}
"""Where one flipped bit cannot go unseen."""


def fuzz(root: Path, seed: int, rounds: int) -> None:
    (root / f"{FIRST}.keyindex").write_bytes(build_key_index(str(root / f"{FIRST}.log")).tobytes())
    assert run(root).findings == []
    files = [path for path in sorted(root.rglob("*")) if path.is_file() and path.stat().st_size]
    rng = random.Random(seed)
    for _ in range(rounds):
        path = rng.choice(files)
        before = path.read_bytes()
        at, bit = rng.randrange(len(before)), rng.randrange(8)
        is_flip = rng.random() < 0.8
        after = before[:at] + bytes([before[at] ^ 1 << bit]) + before[at + 1 :] if is_flip else before[:at]
        path.write_bytes(after)
        report = run(root)
        if is_flip and path.suffix in SHOWN:
            assert report.findings, (path.name, at, bit)
        assert all(0 <= finding.position <= max(len(before), 1000) for finding in report.findings)
        assert path.read_bytes() == after
        path.write_bytes(before)


def test_flips_and_cuts(root: Path) -> None:
    fuzz(root, 1, examples(250))


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", every(4, range(2, 22)))
def test_many_flips_and_cuts(root: Path, seed: int) -> None:
    """With LOGDEX_TEST_SEEDS=all ten thousand, over the seeds."""
    fuzz(root, seed, 500)


@pytest.mark.parametrize("seed", range(20))
def test_a_harmed_directory_is_recovered(seed: int, root: Path, tmp_path: Path) -> None:
    rng = random.Random(seed)
    files = [path for path in sorted(root.rglob("*")) if path.is_file() and path.stat().st_size]
    for path in rng.sample(files, 4):
        raw = bytearray(path.read_bytes())
        raw[rng.randrange(len(raw))] ^= 1 << rng.randrange(8)
        path.write_bytes(raw)
    recover(str(root), str(tmp_path / "out"), CONFIG, sync=False)
    left = {finding.check for finding in verify(str(tmp_path / "out"), CONFIG).findings}
    assert left <= {"batch-leader-epoch"}  # batches keep their bytes
