"""Decompressed bodies come in parts, so that memory does not depend on how well they compress."""

from __future__ import annotations

import zlib

import pyarrow as pa
import pytest

from logdex.layout.rocketmq import SYS_FLAG_COMPRESSED
from logdex.rocketmq.columns import plain_bodies
from logdex.rocketmq.columns.plain_bodies import decompressed


def test_parts_are_bounded_and_nothing_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain_bodies, "PART_SIZE_BYTES", 10_000)
    plain = [bytes([number]) * (3_000 if number % 3 else 10) for number in range(40)]
    flags = [SYS_FLAG_COMPRESSED if number % 3 else 0 for number in range(40)]
    stored = [zlib.compress(body) if flag else body for body, flag in zip(plain, flags, strict=True)]
    batch = pa.record_batch(
        [pa.array(stored), pa.array(flags, pa.int32()), pa.array(range(40), pa.int64())],
        ["body", "sys_flag", "physical_offset"],
    )
    parts = [*decompressed(batch, lambda offset: ("log", offset), lambda *_: None)]
    assert [body for part in parts for body in part.column("body").to_pylist()] == plain
    assert [at for part in parts for at in part.column("physical_offset").to_pylist()] == [*range(40)]
    assert max(sum(map(len, part.column("body").to_pylist())) for part in parts) < 14_000
    assert len(parts) > 5
