"""Decides what stands where in the new log: pieces at their physical offsets, placeholders and
fillers between them, and where the log ends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from logdex.layout.rocketmq import BLANK
from logdex.rocketmq.commit_log.commit_log import CommitLogFile
from logdex.rocketmq.recover.placeholder import PLACEHOLDER_SIZE_MIN, placeholder_sizes
from logdex.rocketmq.recover.report import Skipped
from logdex.rocketmq.recover.whole_pieces import Dropped, Piece, ScannedFile

_NO_ROOM = "a whole message, since the damage before it leaves no room for a placeholder"
_NO_MESSAGE_MAX = PLACEHOLDER_SIZE_MIN + BLANK.size_bytes - 1
"""So many bytes at the end of a file hold no message: behind one, a filler must fit."""

FirstSize = Callable[[ScannedFile, Piece], int]
"""Returns the size of the first message of a piece."""


class Fill(NamedTuple):
    """Placeholders in bytes [start, end) of a file. `store_timestamp_ms` is their store time."""

    start: int
    end: int
    store_timestamp_ms: int


@dataclass(slots=True)
class NewFile:
    """A file of the new log: the pieces to copy, the placeholders, and the position of the filler,
    None if there is none."""

    scanned: ScannedFile
    fills: list[Fill] = field(default_factory=list)
    filler_at: int | None = None

    @property
    def pieces(self) -> list[Piece]:
        """The pieces to copy."""
        return self.scanned.pieces


@dataclass(slots=True)
class NewLog:
    """The files of the new log, the physical offset where it ends, and every range of the old files
    that is not in it. `unfit` are the files that by their names are none of the log."""

    files: list[NewFile]
    end_offset: int
    skipped: list[Skipped] = field(default_factory=list)
    unfit: list[CommitLogFile] = field(default_factory=list)


def place(files: list[ScannedFile], file_size_bytes: int, first_size: FirstSize) -> NewLog:
    """Returns the new log. Messages for which there is no room are removed from the pieces of
    `files`."""
    for scanned in files:
        _make_room(scanned, first_size)
    with_messages = [number for number, scanned in enumerate(files) if scanned.pieces]
    last = with_messages[-1] if with_messages else 0
    new = [NewFile(scanned) for scanned in files[: last + 1]]
    for file in new[:-1]:
        _fill(file, file_size_bytes)
    end = _end(new[-1], file_size_bytes)
    _set_times(new)
    log = NewLog(new, new[-1].scanned.start_offset + end)
    for number, scanned in enumerate(files):
        is_inside = number < last
        log.skipped += _skipped(scanned, new[number] if number <= last else None, is_inside, file_size_bytes)
    return log


def _make_room(scanned: ScannedFile, first_size: FirstSize) -> None:
    """Removes messages behind ranges that are shorter than a placeholder. No broker's log has such
    a range: every message is longer."""
    at, kept = 0, list[Piece]()
    for piece in scanned.pieces:
        while at < piece.start < at + PLACEHOLDER_SIZE_MIN and piece.start < piece.end:
            end = piece.start + first_size(scanned, piece)
            _insert(scanned, Dropped(piece.start, end, _NO_ROOM))
            piece = piece._replace(start=end, messages=piece.messages - 1)
        if piece.start < piece.end:
            kept.append(piece)
            at = piece.end
    scanned.pieces = kept


def _insert(scanned: ScannedFile, dropped: Dropped) -> None:
    scanned.dropped.append(dropped)
    scanned.dropped.sort()


def _fill(file: NewFile, size: int) -> None:
    """Fills a file that the log goes on behind: placeholders where there is no message, and a
    filler at its end."""
    at, filler_at = _fill_between(file), file.scanned.filler_at
    if filler_at is None:
        filler_at = size - BLANK.size_bytes if size - at > _NO_MESSAGE_MAX else at
    if filler_at - at >= PLACEHOLDER_SIZE_MIN:
        file.fills.append(Fill(at, filler_at, 0))
    else:
        filler_at = at
    file.filler_at = filler_at if size - filler_at >= BLANK.size_bytes else None


def _fill_between(file: NewFile) -> int:
    """Fills what lies before and between the pieces of a file. Returns the end of the last one."""
    at = 0
    for piece in file.pieces:
        file.fills += [Fill(at, piece.start, 0)] if piece.start > at else []
        at = piece.end
    return at


def _end(file: NewFile, size: int) -> int:
    """Fills the last file up to its last message. Returns where the log ends in it."""
    at = _fill_between(file)
    if file.scanned.filler_at == at and at and size - at >= BLANK.size_bytes:
        file.filler_at = at
        return size
    return at


def _set_times(files: list[NewFile]) -> None:
    """Gives placeholders the store time of the message before them, or of the first one behind."""
    pieces = [piece for file in files for piece in file.pieces]
    now = pieces[0].first_ms if pieces else 0
    for file in files:
        times = {piece.end: piece.last_ms for piece in file.pieces}
        for number, fill in enumerate(file.fills):
            now = times.get(fill.start, now)
            file.fills[number] = fill._replace(store_timestamp_ms=now)
        now = file.pieces[-1].last_ms if file.pieces else now


def _skipped(scanned: ScannedFile, new: NewFile | None, is_inside: bool, size: int) -> list[Skipped]:
    """Returns the ranges of a file of the old log that are not in the new log. `is_inside` states
    whether the log goes on in a later file."""
    fills = new.fills if new is not None else []
    if scanned.source is None:
        return [_row(scanned, 0, size, scanned.why_missing, fills, is_loss=True)] if is_inside else []
    found = []
    for dropped in scanned.dropped:
        if dropped.is_zero and not is_inside:
            continue  # nothing was written there
        is_tail = dropped.end == min(scanned.source.size_bytes, size)
        is_filler = is_tail and size - dropped.start <= _NO_MESSAGE_MAX and scanned.filler_at is None
        is_filler &= is_inside or not dropped.is_torn
        found.append(_row(scanned, *dropped[:3], fills, is_loss=not is_filler))
    cut_at = scanned.source.size_bytes
    is_open = scanned.filler_at is None and (not scanned.pieces or scanned.pieces[-1].end <= cut_at)
    if is_inside and cut_at < size and is_open:
        why = f"the file ends here, at {cut_at} of {size} bytes"
        found.append(_row(scanned, cut_at, size, why, fills, is_loss=size - cut_at > _NO_MESSAGE_MAX))
    return found


def _row(scanned: ScannedFile, start: int, end: int, why: str, fills: list[Fill], *, is_loss: bool) -> Skipped:
    """Returns the row of the report for a range. The placeholders of several ranges side by side
    are named with the first of them."""
    count = sum(len(placeholder_sizes(fill.end - fill.start)) for fill in fills if start <= fill.start < end)
    return Skipped(scanned.path, start, end, why, scanned.start_offset + start, count, is_loss)
