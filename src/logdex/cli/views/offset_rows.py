"""Prints how far groups have read, whatever the format."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from logdex.cli.output import emit_json, note, table
from logdex.primitives.wrong_questions import nearest_names

_LISTED = 8
"""How many groups are named where one is not known."""


def tell_new_group(group: str, known: Iterable[str]) -> None:
    """Says that a group whose offsets are to be reset has none yet, with the nearest of those that
    have, or all."""
    names = sorted(set(known))
    if group in names:
        return
    similar = nearest_names(group, names)
    listed = ", ".join(names[:_LISTED]) + (" …" if names[_LISTED:] else "")
    others = f"did you mean {similar[0]}?" if similar else f"there are: {listed}" if names else "no group has any"
    note(f"the group {group} has no offsets yet; {others}")


def tell_moved(reset_to: str | None, targets: Iterable[int | None]) -> None:
    """Says that an offset that is to be reset to is not there."""
    if reset_to is not None and reset_to.isdecimal() and any(each not in (None, int(reset_to)) for each in targets):
        note(f"offset {reset_to} is not there everywhere: the nearest one is taken; a time is given in ISO 8601")


class OffsetRow(NamedTuple):
    """How far a group has read a queue or a partition, whose `number` it is; offsets are from `low`
    to `high` (exclusive). `lag` is None if nothing is known of the queue. `target` is where a reset
    puts it, None without one. `kind` says whether it is a broker's ``group`` or a ``reader``, which
    Logdex keeps."""

    group: str
    topic: str
    number: int
    offset: int | None
    low: int
    high: int
    lag: int | None
    target: int | None
    kind: str = "group"


def print_offsets(
    rows: Sequence[OffsetRow], *, names: tuple[str, str, str], column: str, nothing: str, as_json: bool
) -> None:
    """Prints rows. `names` are the JSON names of number, low and high, `column` is the number's
    heading in the table, `nothing` says that there is no row."""
    if as_json:
        number, low, high = names
        for row in rows:
            line = {"group": row.group, "kind": row.kind, "topic": row.topic, number: row.number, "offset": row.offset}
            line |= {low: row.low, high: row.high, "lag": row.lag}
            emit_json(line if row.target is None else {**line, "reset_to": row.target})
        return
    if not rows:
        note(nothing)
        return
    is_reset = any(row.target is not None for row in rows)
    has_readers = any(row.kind == "reader" for row in rows)
    kind, more = ("kind",) * has_readers, ("reset to",) * is_reset
    lines = [("group", *kind, "topic", column, "offset", "from", "to (excl.)", "lag", *more)]
    for row in rows:
        numbers = [row.number, row.offset, row.low, row.high, row.lag, *([row.target] if is_reset else [])]
        kind = (row.kind,) * has_readers
        lines.append((row.group, *kind, row.topic, *("-" if each is None else str(each) for each in numbers)))
    table(lines, right=range(2 + has_readers, 8 + has_readers), indent="")
