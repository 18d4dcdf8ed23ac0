"""The message codec: what is written is read back; every cut and flip ends in a typed error or in
as many bytes."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from logdex.errors import CorruptError, TruncatedError
from logdex.rocketmq.commit_log.commit_log import CommitLog
from logdex.rocketmq.message.stored_message import StoredMessage, decode_message, encode_message
from logdex.testing.strategies import stored_messages
from tests.examples import some


@given(stored_messages(), st.binary(max_size=9), st.binary(max_size=9))
def test_round_trip_at_any_place(message: StoredMessage, before: bytes, behind: bytes) -> None:
    data = encode_message(message)
    decoded, size = decode_message(before + data + behind, len(before))
    assert size == len(data)
    for field in fields(message):
        if field.name != "size_bytes":
            assert getattr(decoded, field.name) == getattr(message, field.name)
    assert encode_message(decoded) == data


@given(stored_messages(body_size_max=16), st.integers(0, 1 << 20))
def test_every_cut_is_truncated_and_located(message: StoredMessage, position: int) -> None:
    data = encode_message(message)
    for end in some(range(len(data)), 4, first=len(data)):
        with pytest.raises(TruncatedError) as caught:
            decode_message(data[:end], path="log", position=position)
        assert caught.value.position == position
        assert caught.value.path == "log"


@settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(stored_messages(body_size_max=8), st.integers(1, 255))
def test_every_flip_ends_in_an_error_or_an_equal_length(message: StoredMessage, flip: int) -> None:
    data = bytearray(encode_message(message))
    for at in some(range(len(data)), 4, first=flip):
        data[at] ^= flip
        try:
            ends = [decode_message(bytes(data))[1]]
        except CorruptError as error:
            ends, positions = [], [error.position]
        else:
            positions = []
        assert all(end == len(data) for end in ends)
        assert all(0 <= position <= len(data) for position in positions)
        data[at] ^= flip


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(stored_messages(body_size_max=8), st.data())
def test_a_harmed_file_is_located_or_read(tmp_path: Path, message: StoredMessage, data: st.DataObject) -> None:
    stored = bytearray(encode_message(message))
    at = data.draw(st.integers(0, len(stored) - 1))
    stored[at] ^= data.draw(st.integers(1, 255))
    cut = data.draw(st.integers(1, len(stored) + 40))
    path = tmp_path / f"{0:020d}"
    path.write_bytes(bytes(stored).ljust(len(stored) + 40, b"\0")[:cut])
    with CommitLog(str(tmp_path)) as log:
        try:
            path_found, end = str(path), log.read_message(0).size_bytes
        except CorruptError as error:
            path_found, end = error.path, error.position
    assert path_found == str(path)
    assert 0 <= end <= cut
