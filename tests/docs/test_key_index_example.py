"""The worked example in docs/formats/kafka-key-index.md, built again from the log that it names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from logdex.kafka.key_index import decode_header
from logdex.kafka.key_index.build import build_key_index
from logdex.primitives.xxh64 import xxh64
from tests.docs.test_formats import block, hex_dump, marks, table


@pytest.mark.parametrize(("mark", "text"), [(mark, text) for _, mark, text in marks("key-index")])
def test_example_is_what_is_built(mark: str, text: str, golden_log: Callable[[str], Path]) -> None:
    given = dict(part.split("=", 1) for part in mark.split())
    raw = build_key_index(str(golden_log("tiny-broker") / given["file"])).tobytes()
    at, size = int(given["at"]), int(given["size"])
    assert block(text) == hex_dump(raw[at : at + size])
    if at == 0:
        header = decode_header(raw, len(raw), "")
        assert {row[0]: row[1] for row in table(text)} == {
            name: str(getattr(header, name)) for name in header.__dataclass_fields__
        }


def test_stated_hash() -> None:
    assert f"{xxh64(b'key-799'):016x}" == "1b240b76392343b6"
    assert len(marks("key-index")) == 3
