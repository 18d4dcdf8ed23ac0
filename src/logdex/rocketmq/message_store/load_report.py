"""What opening a store found and changed."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class LoadReport:
    """All offsets are physical offsets of the CommitLog."""

    was_clean: bool = True
    """Whether the store was closed cleanly, by a broker or by Logdex."""
    log_end_offset: int = 0
    cut_reason: str | None = None
    """Why the log ends there, if it was not closed cleanly and something else than zeros follows.
    Torn bytes after the end were replaced by zeros."""
    queues_from: int = 0
    """The ConsumeQueues were derived again from here on; the end of the log if they were whole."""
    index_from: int = 0
    """The IndexFiles were derived again from here on; the end of the log if they were whole."""
    removed_index_files: list[str] = field(default_factory=list)
    removed_queues: list[str] = field(default_factory=list)
    """Directories of damaged ConsumeQueues, which were derived again."""
    mended_queues: list[str] = field(default_factory=list)
    """Directories of damaged ConsumeQueues whose messages have all expired. The file with their
    last entry was given its size; it alone says at which queue offset they go on."""
    config_remarks: list[str] = field(default_factory=list)
    """Sentences on the files of ``config/`` of which the older ``.bak`` was read, and why."""
