"""Bytes that are replaced by zeros in place."""

from __future__ import annotations

from pathlib import Path

import pytest

from logdex.io import zeros
from logdex.io.zeros import write_zeros_from
from logdex.testing import FaultEnv


@pytest.mark.parametrize("position", [0, 1, 700, 4096, 5000, 19_999, 20_000, 25_000])
def test_what_is_behind_a_position_is_zero(position: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zeros, "_BLOCK_BYTES", 4096)
    path, data = tmp_path / "file", b"x" * 9000 + bytes(6000) + b"y" * 5000
    path.write_bytes(data)
    env = FaultEnv(str(tmp_path))
    with env.open_write(str(path)) as file:
        write_zeros_from(file, position, env)
    assert path.read_bytes() == data[:position].ljust(len(data), b"\0")
    assert "truncate" not in {kind for kind, _ in env.log}


def test_zeros_are_not_written_again_and_holes_not_read(tmp_path: Path) -> None:
    env = FaultEnv(str(tmp_path))
    with env.open_write(str(tmp_path / "file")) as file:
        file.truncate(1 << 40)
        file.write_at(0, b"x" * 10 + bytes(5000))
        write_zeros_from(file, 10, env)
        assert env.count(frozenset({"write_at"})) == 1
        assert env.counters.read_bytes < 1 << 21
