"""One CommitLog file under any other name: recover returns every message, whatever the name says,
and verify has one finding, whose mend mends it. Nothing states the size of the files."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path
from typing import Any

import pytest

from logdex.rocketmq.geometry.resolve import resolve_config
from logdex.rocketmq.recover import recover
from logdex.rocketmq.verify import verify
from logdex.testing.store_builder import make_message
from tests.crash.trees import tree
from tests.examples import cases
from tests.unit.rocketmq.small_stores import CONFIG, FILE_SIZE, START_MS, build

STATED: dict[str, Any] = {"max_hash_slot_num": CONFIG.max_hash_slot_num, "max_index_num": CONFIG.max_index_num}


def random_store(root: Path, rng: random.Random) -> list[Path]:
    """Returns the files of a log, at least two. Some of them have one message, which fills most of
    the file."""
    sizes = [1500, 1500, *(rng.choice([10, 100, 300, 1500]) for _ in range(rng.randint(0, 40)))]
    messages = [
        make_message(queue_offset=number, body=rng.randbytes(size), store_timestamp_ms=START_MS + number * 1000)
        for number, size in enumerate(sizes)
    ]
    build(root, messages, start_offset=rng.choice([0, 3 * FILE_SIZE]))
    return sorted((root / "commitlog").iterdir())


def wrong_name(files: list[Path], rng: random.Random) -> str:
    """A free name: off by a digit, by some bytes, by whole files, or any other one of 20 digits."""
    taken = {int(file.name) for file in files}
    right = rng.choice(sorted(taken))
    while True:
        near = right + rng.choice([-1, 1]) * rng.choice([1, rng.randrange(FILE_SIZE), 10 ** rng.randrange(18)])
        whole = right + FILE_SIZE * rng.randint(-9, 5000)
        found = rng.choice([near, near, whole, rng.randrange(10**20)])
        if found >= 0 and found not in taken:
            return f"{found:020d}"


@pytest.mark.parametrize("seed", cases(range(400), 40))
def test_every_message_is_recovered(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    root = tmp_path / "store"
    files = random_store(root, rng)
    whole = recover(root, tmp_path / "whole", resolve_config(str(root), **STATED), sync=False)
    before, right = tree(root), rng.choice(files)
    wrong = right.rename(right.with_name(wrong_name(files, rng)))
    config = resolve_config(str(root), **STATED)
    assert config.mapped_file_size_commit_log == FILE_SIZE
    report = recover(root, tmp_path / "out", config, sync=False)
    assert (report.messages, report.skipped, report.losses) == (whole.messages, [], []), (right, wrong)
    assert tree(tmp_path / "out") == tree(tmp_path / "whole")
    [finding] = verify(root, config).findings
    assert (finding.check, finding.path, finding.expected) == ("commit-log-name", str(wrong), right.name)
    subprocess.run(finding.mend, shell=True, check=True)
    assert verify(root, config).findings == []
    assert tree(root) == before
