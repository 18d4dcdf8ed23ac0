"""The files of a log that is written, as other threads see them."""

from __future__ import annotations

import sys
from pathlib import Path

from logdex.io.env import DEFAULT_ENV
from logdex.rocketmq.message_store.put.log_files import LogFiles

FILE = 64


def test_no_step_of_the_end_of_a_file_shows_a_wrong_end(tmp_path: Path) -> None:
    """Threads that do not hold the store's lock, such as the dispatch, look at the end at any
    time."""
    files, seen = LogFiles(DEFAULT_ENV, str(tmp_path), FILE, 0), list[int]()
    files.append(bytes(40))
    files.prepare()

    def trace(frame: object, event: str, _: object) -> object:
        seen.append(files.end_offset)
        return trace

    former = sys.gettrace()
    sys.settrace(trace)  # type: ignore[arg-type]
    try:
        files.end_file(lambda sync: sync()).close()
    finally:
        sys.settrace(former)
    files.close()
    assert set(seen) == {40, FILE}
