"""Searching the bytes of a CommitLog file: a hole at its end is not read and changes no answer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from logdex.rocketmq.message.stored_message import encode_message
from logdex.rocketmq.scan.log_bytes import LogBytes
from logdex.testing.store_builder import make_message


class Forbidden(np.ndarray[Any, Any]):
    """Bytes whose reading behind `limit` fails."""

    limit = 0

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice) and key.stop is not None:
            assert key.stop <= self.limit + 8, "a hole is read"
        return super().__getitem__(key)


@given(st.lists(st.sampled_from([b"", b"junk", bytes(7)]), max_size=6), st.integers(0, 5_000))
def test_a_hole_changes_no_answer(between: list[bytes], hole: int) -> None:
    written = bytearray()
    for text in between:
        written += text + encode_message(replace(make_message(body=text), physical_offset=len(written) + len(text)))
    data = np.frombuffer(bytes(written) + bytes(hole), np.uint8)
    guarded = data.view(Forbidden)
    guarded.limit = len(written)
    whole, holed = LogBytes(data, 0), LogBytes(guarded, 0, len(written))
    for at in {0, 1, len(written) // 2, len(written), len(data)}:
        assert holed.first_nonzero(at) == whole.first_nonzero(at)
        assert holed.last_nonzero(at) == whole.last_nonzero(at)
        assert holed.is_unwritten(at) == whole.is_unwritten(at)
        assert list(holed.starts(at, len(data))) == list(whole.starts(at, len(data)))
