"""The property DELAY of a delayed message is read as Java's Integer.parseInt reads it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from logdex.rocketmq.commit_log.commit_log import CommitLog
from logdex.rocketmq.message.tags_code import SCHEDULE_TOPIC_NAME, tags_code
from logdex.rocketmq.scan.scanner import Scanner
from logdex.rocketmq.settings.store_config import StoreConfig
from logdex.testing.store_builder import make_message, write_commit_log

LEVELS_MS = (1_000, 5_000, 10_000)
CONFIG = replace(StoreConfig(), mapped_file_size_commit_log=1 << 16, delay_levels_ms=LEVELS_MS)


@pytest.mark.parametrize(
    ("text", "level"),
    [
        ("2", 2),
        ("+2", 2),
        ("0000000002", 2),
        ("00000000002", 2),
        ("+" + 5000 * "0" + "3", 3),
        ("2147483647", 3),
        ("0002147483647", 3),
        ("2147483648", None),
        ("99999999999999999999999999", None),
        ("-0000000000001", 0),
        ("-2147483648", 0),
        ("-2147483649", None),
        ("0" * 30, 0),
        ("+", None),
        ("-", None),
        ("1 ", None),
        ("0x1", None),
        ("+-1", None),
    ],
)
def test_delay(text: str, level: int | None, tmp_path: Path) -> None:
    message = make_message(SCHEDULE_TOPIC_NAME, properties=[(b"DELAY", text.encode()), (b"KEYS", b"k")])
    plain = tags_code(message, CONFIG)
    if level is None:
        assert plain is None
    else:
        assert plain == (message.store_timestamp_ms + LEVELS_MS[level - 1] if level > 0 else 0)
    write_commit_log(str(tmp_path), [message], 1 << 16)
    scanner = Scanner(CONFIG)
    with CommitLog.of_store(str(tmp_path)) as log:
        found = [int(window.columns.tags_code[0]) for window in scanner.scan(log)]
    assert found == ([] if plain is None else [plain])
