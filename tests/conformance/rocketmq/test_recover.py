"""Every store that a real broker wrote is recovered: of a clean one nothing is lost and every file
is as the broker's, and of a crashed or damaged one at least what the real engine kept is saved."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from logdex.rocketmq.geometry.resolve import resolve_config
from logdex.rocketmq.recover import recover
from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot
from logdex.rocketmq.verify import verify
from tests.examples import cases
from tests.golden import rocketmq as golden

CRASHED = [name for name in golden.NAMES if golden.has_recovered(name)]
CLEAN = [name for name in golden.NAMES if not golden.has_recovered(name) and name != "default-geometry"]


@pytest.mark.parametrize("name", cases(CRASHED, 3))
def test_at_least_what_the_real_engine_keeps(name: str, golden_store: Callable[..., Path], tmp_path: Path) -> None:
    root, out = golden_store(name), tmp_path / "out"
    config = resolve_config(str(root))
    recover(root, out, config, sync=False)
    assert [str(each) for each in verify(str(out), config).findings] == []
    with StoreSnapshot(out, config=config) as store:
        saved = {each.physical_offset: each.size_bytes for each in store.scan()}
        for told in golden.manifest(name)["messages"]:
            assert saved[told["physicalOffset"]] == told["size"]
        for told in golden.manifest(name)["entries"]:
            if told[-1]:  # the engine hands its message out
                found = store.get_message(told[0], queue_id=told[1], offset=told[2], max_count=1).messages
                assert [each.physical_offset for each in found] == [told[3]]


@pytest.mark.parametrize("name", cases(CLEAN, 4))
def test_nothing_of_a_clean_store_is_lost(name: str, golden_store: Callable[..., Path], tmp_path: Path) -> None:
    root, out = golden_store(name), tmp_path / "out"
    report = recover(root, out, resolve_config(str(root)), sync=False)
    assert (report.lossy, report.skipped, report.placeholders) == (False, [], 0)
    assert report.messages == len(golden.manifest(name)["messages"])
    for path in (root / "commitlog").iterdir():
        made = out / "commitlog" / path.name
        written = made.read_bytes().rstrip(b"\0") if made.exists() else b""
        assert path.read_bytes().startswith(written)  # behind a filler may be old bytes, which are not copied
        assert made.exists() == any(path.read_bytes())
    for told in ("consumequeue", "config"):
        files = {path.relative_to(root): path.read_bytes() for path in (root / told).rglob("*") if path.is_file()}
        assert {path: (out / path).read_bytes() for path in files if (out / path).exists()} == files
