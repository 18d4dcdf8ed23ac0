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
    to `high` (exclusive). `target` is where a reset puts it, None without one. `kind` says whether
    it is a broker's ``group`` or a ``reader``, which Logdex keeps."""

    group: str
    topic: str
    number: int
    offset: int | None
    low: int
    high: int
    lag: int
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
    lines = [("group", "topic", column, "offset", "from", "to (excl.)", "lag", *(("reset to",) if is_reset else ()))]
    for row in rows:
        shown = "-" if row.offset is None else str(row.offset)
        more = (str(row.target),) if is_reset else ()
        lines.append((row.group, row.topic, str(row.number), shown, *map(str, (row.low, row.high, row.lag)), *more))
    table(lines, right=range(2, 8), indent="")
