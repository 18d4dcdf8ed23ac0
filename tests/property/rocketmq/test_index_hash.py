"""The hash kernels give what the scalar `String.hashCode` gives, for any bytes, and read nothing
around them."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from logdex.kernels.rocketmq import java_hash as kernel
from logdex.primitives import java_hash as plain
from logdex.rocketmq.index_file.index_keys import KeyBatch, hash_keys, key_hash_of, key_prefix

WHOLE = ["a", "key-17", "0123456789abcdef", "é", "中", "😀"]
BROKEN = [
    b"\x80",
    b"\xc0",
    b"\xc3",
    b"\xe0\x80",
    b"\xed",
    b"\xed\xa0",
    b"\xed\xa0\x80",
    b"\xed\xbf\xbf",
    b"\xf0\x9f\x98",
    b"\xf4\x90\x80\x80",
    b"\xff",
]
PIECES = [piece.encode() for piece in WHOLE] + BROKEN
any_bytes = st.one_of(
    st.binary(max_size=40), st.lists(st.sampled_from(PIECES), max_size=8).map(b"".join), st.text().map(str.encode)
)
seeds = st.integers(-(1 << 31), (1 << 31) - 1)


@given(any_bytes, seeds, st.binary(min_size=9, max_size=9))
@example(b"polygenelubricants", 0, b"\xff" * 9)  # hashes to the one int without an absolute value
def test_hash_kernels_equal_the_scalar_hash(data: bytes, seed: int, around: bytes) -> None:
    buffer = np.frombuffer(around + data + around, np.uint8)
    at = buffer.ctypes.data + len(around)
    expected = plain.java_hash(data, seed) & 0xFFFFFFFF
    assert int(kernel.java_hash(at, len(data), seed)) == expected
    assert int(kernel.java_hash_units(at, len(data), seed)) == expected
    assert int(kernel.index_key_hash(at, len(data), seed)) == plain.index_key_hash(data, seed)


@given(st.lists(any_bytes, max_size=20), st.sampled_from(["orders", "中", ""]), st.sampled_from([None, "T"]))
def test_bulk_hashes_equal_single_ones(keys: list[bytes], topic: str, index_type: str | None) -> None:
    expected = [key_hash_of(topic, key, index_type) for key in keys]
    prefix = key_prefix(topic, index_type)
    assert hash_keys(keys, prefix).tolist() == expected
    assert hash_keys(keys, prefix, plain=True).tolist() == expected
    ends = np.cumsum([len(key) for key in keys], dtype=np.int64)
    batch = KeyBatch(np.frombuffer(b"".join(keys), np.uint8), ends)
    assert hash_keys(batch, prefix).tolist() == expected
