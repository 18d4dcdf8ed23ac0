"""Places batches that contradict their neighbours: a run of batches is put where its offsets are
free, a batch that is in the log already is dropped, and batches without a place are put aside.

A single batch whose offset lies before or after all others is put aside too: its offset may be
wrong, because no checksum covers an offset.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import replace
from typing import NamedTuple

from logdex import limits
from logdex.io.env import Env
from logdex.kafka.recover.partition_scan import Piece, batches_of
from logdex.kafka.recover.report import Skipped


class Placed(NamedTuple):
    """`pieces` are the pieces of the log in rising order, `aside` those that are saved beside the
    log. `skipped` gives the reasons."""

    pieces: list[Piece]
    aside: list[Piece]
    skipped: list[Skipped]


def place(pieces: list[Piece], strays: list[Piece], env: Env) -> Placed:
    """Inserts `strays` into the rising `pieces` where there is room."""
    pieces, alone = _without_far_end(pieces, env)
    strays = [*strays, *alone]
    if not strays:
        return Placed(pieces, [], [])
    placing = _Placing(pieces, env)
    for stray in strays:
        placing.put(stray)
    return Placed(placing.pieces, placing.aside, placing.told())


def _without_far_end(pieces: list[Piece], env: Env) -> tuple[list[Piece], list[Piece]]:
    """Returns the pieces, and the log's last batch separately if it alone lies beyond the offsets
    that its segment can hold. No broker writes such a batch."""
    if not pieces or not _is_far(pieces[-1]):
        return pieces, []
    *before, last = batches_of(pieces[-1], env)
    if before and _is_far(before[-1]):
        return pieces, []
    return joined([*pieces[:-1], *before]), [last]


def _is_far(piece: Piece) -> bool:
    return piece.last_offset - piece.source.base_offset > limits.RELATIVE_OFFSET_MAX


class _Placing:
    """The pieces so far. Where a stray falls inside one, that piece is split into its batches."""

    def __init__(self, pieces: list[Piece], env: Env) -> None:
        self.pieces = list(pieces)
        self.aside: list[Piece] = []
        self._repeated: list[Skipped] = []
        self._why: list[str] = []
        self._env = env

    def told(self) -> list[Skipped]:
        """Returns what is not in the log, and why, when all strays are placed."""
        put_aside = zip(self.aside, self._why, strict=True)
        return [*self._repeated, *(self._lost_with(stray, why) for stray, why in put_aside)]

    def _lost_with(self, stray: Piece, why: str) -> Skipped:
        """Returns a batch that was put aside, with the offsets that its neighbours in the file
        leave open: what it states itself may be damaged. Behind the last batch they are as many as
        it states."""
        place = stray.source.base_offset, stray.start
        before = (piece.last_offset for piece in self.pieces if (piece.source.base_offset, piece.start) < place)
        behind = (piece.first_offset for piece in self.pieces if (piece.source.base_offset, piece.start) > place)
        first = max(before, default=stray.source.base_offset - 1) + 1
        count = stray.last_offset - stray.first_offset + 1
        next_offset = min(behind, default=first + count if count > 0 else -1)
        if 0 <= next_offset < first:
            next_offset = first
        told = f"a whole batch that cannot be placed: {why}"
        return Skipped(stray.source.path, stray.start, stray.end, told, first, next_offset)

    def put(self, stray: Piece) -> None:
        """Places a rising run of batches, as a whole or batch by batch."""
        if stray.last_offset < stray.first_offset or stray.first_offset < 0:
            self._put_aside(stray, "offsets that cannot be")
            return
        low, high = self._touched(stray)
        if low == high:
            if stray.batches == 1 and not 0 < low < len(self.pieces):
                self._put_aside(stray, "its offset lies outside the log's")
            else:
                self.pieces.insert(low, stray)
            return
        if stray.batches > 1:
            for batch in batches_of(stray, self._env):
                self.put(batch)
            return
        self._split(low, high)
        low, high = self._touched(stray)
        if low == high:
            self.pieces.insert(low, stray)
        elif any(self._is_same(stray, other) for other in self.pieces[low:high]):
            span = stray.start, stray.end, "a batch that is in the log already", stray.first_offset
            self._repeated.append(Skipped(stray.source.path, *span, stray.last_offset + 1, is_loss=False))
        else:
            self._put_aside(stray, "another batch has its offsets")

    def _touched(self, stray: Piece) -> tuple[int, int]:
        """Returns the range [low, high) of the pieces whose offsets overlap the stray's."""
        low = bisect_left(self.pieces, stray.first_offset, key=lambda piece: piece.last_offset)
        high = low
        while high < len(self.pieces) and self.pieces[high].first_offset <= stray.last_offset:
            high += 1
        return low, high

    def _split(self, low: int, high: int) -> None:
        parts = [batch for piece in self.pieces[low:high] for batch in batches_of(piece, self._env)]
        self.pieces[low:high] = parts

    def _is_same(self, one: Piece, other: Piece) -> bool:
        if one.end - one.start != other.end - other.start:
            return False
        with self._env.open_read(one.source.path) as first, self._env.open_read(other.source.path) as second:
            size = one.end - one.start
            return first.read_at(one.start, size) == second.read_at(other.start, size)

    def _put_aside(self, stray: Piece, why: str) -> None:
        self.aside.append(stray)
        self._why.append(why)


def still_missing(missing: list[Skipped], pieces: list[Piece]) -> list[Skipped]:
    """Returns the logs that are not there, with the offsets that no other file has; without those
    of which other files have all."""
    found = []
    for each in missing:
        first = each.first_offset
        for piece in pieces:
            if piece.first_offset <= first <= piece.last_offset:
                first = piece.last_offset + 1
        if first < each.next_offset or each.next_offset < 0:
            found.append(replace(each, first_offset=first))
    return found


def joined(pieces: list[Piece]) -> list[Piece]:
    """Returns the pieces, with those that follow each other in one file joined."""
    result: list[Piece] = []
    for piece in pieces:
        before = result[-1] if result else None
        if before is not None and before.source is piece.source and before.end == piece.start:
            result[-1] = before._replace(
                end=piece.end,
                last_offset=piece.last_offset,
                batches=before.batches + piece.batches,
                records=before.records + piece.records,
            )
        else:
            result.append(piece)
    return result
