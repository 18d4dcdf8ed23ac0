"""A .log as bytes: what a broker's file can be, and no more."""

from __future__ import annotations

import os
from pathlib import Path

from logdex import limits
from logdex.io.env import Env
from logdex.kafka.scan.scanner import map_log


def test_a_hole_behind_the_largest_size_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    path.write_bytes(b"log")
    os.truncate(path, 1 << 40)
    with map_log(str(path), Env()) as mapped:
        assert mapped.array.size == limits.SEGMENT_SIZE_BYTES_MAX
        assert mapped.array[:4].tobytes() == b"log\0"
    with path.open("r+b") as file:
        file.seek((1 << 40) - 1)
        file.write(b"!")
    with map_log(str(path), Env()) as mapped:
        assert mapped.array.size == 1 << 40
