"""Log directories that we write for the real broker's classes to load."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from logdex.kafka.files.metadata_files import CleanShutdown, MetaProperties
from logdex.kafka.log.log import Log
from logdex.kafka.settings.log_config import LogConfig
from tests.interop.kafka.peer import Lines, config_option, read_log
from tests.interop.kafka.writing import Writer, Written

HOUR_MS = 3_600_000
CONFIG = LogConfig(segment_bytes=20_000, index_interval_bytes=512, retention_ms=-1)
KINDS = ("plain", "stamped", "deleted", "legacy")
STAMPED = LogConfig(
    segment_bytes=20_000, index_interval_bytes=512, retention_ms=-1, message_timestamp_type="LogAppendTime"
)


@dataclass(frozen=True)
class Case:
    """A partition in the log directory `root`, closed cleanly by us; what is in it, where it begins
    and ends."""

    root: Path
    name: str
    config: LogConfig
    written: list[Written]
    start: int
    end: int

    @property
    def partition(self) -> Path:
        return self.root / self.name

    def read_log(self, version: str, *options: str) -> Lines:
        return read_log(self.root, version, *options, "--partition", self.name, *config_option(version, self.config))


def make_log_dir(root: Path) -> None:
    """A log directory as a broker's clean shutdown leaves it."""
    root.mkdir()
    MetaProperties(1, "VqFrmJ_RQmqWTgxnz2vYOQ", 1, "RvsNJOzdTx2Ib4WpMjcLuA").write(str(root / "meta.properties"))
    CleanShutdown().write(str(root / ".kafka_cleanshutdown"))


def write_case(root: Path, kind: str) -> Case:
    """All codecs, headers, null keys and values, idempotent producers, transactions (the last one
    open), segments.

    In the log directory `root`. `kind` is plain, stamped (by the log), deleted (records at its
    start) or legacy (old formats first)."""
    name, config = f"{kind}-0", STAMPED if kind == "stamped" else CONFIG
    with Log.open(str(root / name), config) as log:
        writer = Writer(log, len(kind), start_ms=int(time.time() * 1000) - HOUR_MS)
        if kind == "legacy":
            for magic in (0, 1) * 6:
                for codec in ("none", "gzip", "snappy", "lz4"):
                    writer.legacy(magic, codec=codec)
        writer.everything()
        writer.plain(leader_epoch=1)
        writer.everything()
        writer.transaction(end="open", codec="zstd")
        writer.plain()
        if kind == "deleted":
            log.delete_records(log.segments[1].base_offset + 5)
        assert len(log.segments) > 2
        start, end = log.log_start_offset, log.log_end_offset
    return Case(root, name, config, writer.written, start, end)
