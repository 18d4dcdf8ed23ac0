"""Scans that decompress bodies: by message, as Arrow, and as frames."""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest

from logdex.errors import IncompleteReadWarning
from logdex.layout.rocketmq import SYS_FLAG_COMPRESSED
from tests.unit.rocketmq.small_stores import build, message, opened

BODIES = [b"plain", b"compressed " * 90, zlib.compress(b"not said to be compressed"), b"no zlib"]
STORED = [BODIES[0], zlib.compress(BODIES[1]), *BODIES[2:]]
FLAGS = [0, SYS_FLAG_COMPRESSED, 0, SYS_FLAG_COMPRESSED]


def test_bodies(tmp_path: Path) -> None:
    rows = enumerate(zip(STORED, FLAGS, strict=True))
    build(tmp_path / "store", [message(number, body=body, sys_flag=flag) for number, (body, flag) in rows])
    with opened(tmp_path / "store") as snapshot:
        assert [one.body for one in snapshot.scan()] == STORED
        scan = snapshot.scan(decompress=True)
        for _ in range(2):
            assert [one.body for one in scan] == BODIES
            assert len(scan.losses) == 1
        for columns in (None, ["body"], ["topic", "body", "sys_flag"]):
            with pytest.warns(IncompleteReadWarning, match="decompress"):
                table = scan.to_arrow(columns).read_all()
            assert table.column("body").to_pylist() == BODIES
            assert table.column_names == (columns or snapshot.scan().schema.names)
        with pytest.warns(IncompleteReadWarning, match="decompress"):
            assert scan.to_dataset().to_table(columns=["body"]).column(0).to_pylist() == BODIES
        assert scan.to_arrow(["topic"]).read_all().num_rows == len(BODIES)
        assert scan.losses == []
        assert [one.body for one in snapshot.scan(decompress=True, limit=2)] == BODIES[:2]
