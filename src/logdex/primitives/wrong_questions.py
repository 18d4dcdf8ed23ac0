"""Questions that cannot be meant: an unknown topic, queue or partition, times in the wrong order.
Both formats answer them in the same words."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from difflib import get_close_matches
from operator import index

from logdex.errors import LogClosedError, MissingFileError, UsageError

_LISTED = 8
_CUTOFF = 0.6
LONG_MAX = (1 << 63) - 1
"""The largest number of a file, an offset or a time in milliseconds."""


def unknown_topic(topic: str, known: Collection[str], path: str) -> MissingFileError:
    """Returns the error for a topic that is not among the known ones, with the nearest of these."""
    lists = f"logdex info {shlex.quote(path)} lists the topics"
    found = nearest_names(topic, known)
    hint = f"did you mean {found[0]!r}? {lists}" if found else lists
    return MissingFileError(f"no topic {topic!r}", path=path, hint=hint)


def unknown_part(what: str, number: int, topic: str | None, known: Sequence[int], path: str) -> MissingFileError:
    """Returns the error for a queue or a partition (`what`) that a topic, or any topic, has not."""
    whose = "no topic" if topic is None else f"the topic {topic!r}"
    verb = "has a" if topic is None else "has no"
    return MissingFileError(
        f"{whose} {verb} {what} {number}",
        path=path,
        hint=f"there {'is' if len(known) == 1 else 'are'} {_listed(known)}",
    )


def _listed(known: Sequence[int]) -> str:
    numbers = sorted(known)
    if not numbers:
        return "none"
    if len(numbers) > 2 and numbers[-1] - numbers[0] == len(numbers) - 1:
        return f"{numbers[0]} to {numbers[-1]}"
    shown = ", ".join(map(str, numbers[:_LISTED]))
    return shown if len(numbers) <= _LISTED else f"{shown} and {len(numbers) - _LISTED} more"


def require_open(path: str, *, is_closed: bool) -> None:
    """Raises `LogClosedError` for a question to a snapshot that was closed."""
    if is_closed:
        raise LogClosedError("the snapshot was closed", path=path, hint="open it again")


def require_times(begin_ms: int | None, end_ms: int | None) -> None:
    """Raises `UsageError` if the first time is later than the second."""
    require_longs(begin_ms=begin_ms, end_ms=end_ms)
    if begin_ms is not None and end_ms is not None and begin_ms > end_ms:
        raise UsageError(
            f"the time to begin at, {begin_ms}, is later than the time to end at, {end_ms}",
            hint="exchange them: both are inclusive",
        )


def give_whole_number(given: object) -> str:
    """Returns the hint for what is no whole number, such as a datetime in place of a time."""
    is_datetime = hasattr(given, "timestamp")
    return "give milliseconds: int(when.timestamp() * 1000)" if is_datetime else "give a whole number"


def require_times_of_key(begin_ms: int | None, end_ms: int | None) -> None:
    """Raises `UsageError` as `require_times`, and if there is a key in place of the first time, as
    if a topic were before it."""
    if isinstance(begin_ms, str | bytes):
        raise UsageError(
            f"begin_ms is {begin_ms!r}", hint="give milliseconds; one partition is asked by the key alone: query(key)"
        )
    require_times(begin_ms, end_ms)


def require_whole(**numbers: int) -> None:
    """Raises `UsageError` for what is no whole number, such as None."""
    for name, number in numbers.items():
        _require_whole(name, number)


def _require_whole(name: str, number: int) -> None:
    if type(number) is int:
        return
    try:
        is_whole = not isinstance(number, bool)
        index(number)
    except TypeError:
        is_whole = False
    if not is_whole:
        raise UsageError(f"{name} is {number!r}", hint=give_whole_number(number))


def require_bool(name: str, given: object, hint: str = "give True or False") -> None:
    """Raises `UsageError` for what is neither True nor False, such as a text."""
    if not isinstance(given, bool):
        raise UsageError(f"{name} is {given!r}", hint=hint)


def require_longs(**numbers: int | None) -> None:
    """Raises `UsageError` for a number that no offset and no time can have, and for what is no
    whole number."""
    for name, number in numbers.items():
        if number is None:
            continue
        _require_whole(name, number)
        if not -LONG_MAX - 1 <= number <= LONG_MAX:
            raise UsageError(f"{name} is {number}", hint=f"the largest number is {LONG_MAX}")


def require_within(bounds: Mapping[str, tuple[int, int]], **numbers: int | None) -> None:
    """Raises `UsageError` for a number outside its bounds, which are given by name and inclusive,
    and for what is no whole number. None is a number that is not given."""
    for name, number in numbers.items():
        if number is None:
            continue
        _require_whole(name, number)
        least, most = bounds[name]
        if not least <= number <= most:
            raise UsageError(f"{name} is {number}, it must be {least} to {most}")


def require_counts(**numbers: int | None) -> None:
    """Raises `UsageError` for what cannot be a number of things."""
    require_longs(**numbers)
    for name, number in numbers.items():
        if number is not None and number < 0:
            raise UsageError(f"{name} is {number}", hint="give 0 or more")


def require_most(**numbers: int | None) -> None:
    """Raises `UsageError` for what cannot be the largest number of things to return, None for all
    of them."""
    require_longs(**numbers)
    for name, number in numbers.items():
        if number is not None and number < 1:
            raise UsageError(f"{name} must be 1 or more, got {number}", hint="leave it out for all")


def require_given(**numbers: int | None) -> None:
    """Raises `UsageError` as `require_longs`, and for None."""
    for name, number in numbers.items():
        if number is None:
            raise UsageError(f"{name} is None", hint="give a whole number")
    require_longs(**numbers)


def require_poll(name: str, most: int, timeout_s: float) -> None:
    """Raises `UsageError` for a largest number of things (`name`) below 1, and for a time to wait
    that is no number."""
    require_given(**{name: most})
    if most < 1:
        raise UsageError(f"{name} must be 1 or more, got {most}")
    if timeout_s is None:
        raise UsageError("timeout is None", hint="give seconds as a number, 0 or more")
    require_seconds(timeout=timeout_s)


def require_seconds(**numbers: float | None) -> None:
    """Raises `UsageError` for what is no number of seconds to wait."""
    for name, number in numbers.items():
        if number is not None and not (isinstance(number, int | float) and number >= 0):
            raise UsageError(f"{name} is {number!r}", hint="give seconds as a number, 0 or more")


def require_order(**offsets: int | None) -> None:
    """Raises `UsageError` if the first of two offsets, by name, is behind the second."""
    _require_order("behind", offsets)


def require_order_of_times(**times_ms: int | None) -> None:
    """Raises `UsageError` if the first of two times, by name, is later than the second."""
    _require_order("later than", times_ms)


def _require_order(relation: str, numbers: Mapping[str, int | None]) -> None:
    require_longs(**numbers)
    (name, begin), (other, end) = numbers.items()
    if begin is not None and end is not None and begin > end:
        raise UsageError(f"{name} {begin} is {relation} {other} {end}", hint="exchange them")


def require_names(what: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Raises `UsageError`, with the nearest name, if a name in `given` is no known one. `what` says
    what the names are of."""
    names = {name: name for name in known}
    for name in given:
        if name not in names:
            raise UsageError(f"unknown {what}: {name}", hint=nearest(name, names, names))


def require_column_names(columns: Iterable[str]) -> None:
    """Raises `UsageError` if one text is given as the names of columns, or what has no names."""
    if isinstance(columns, str | bytes) or not isinstance(columns, Iterable):
        hint = "give a list of names" + (f": [{columns!r}]" if isinstance(columns, str) else "")
        raise UsageError(f"the columns are {columns!r}", hint=hint)


def nearest(name: str, by_lower: Mapping[str, str], all_names: Iterable[str]) -> str:
    """Returns a hint with the known name that is nearest to a wrong one, or with all names."""
    found = get_close_matches(name.lower(), by_lower, n=1, cutoff=_CUTOFF)
    return f"did you mean {by_lower[found[0]]}?" if found else f"choose from {', '.join(all_names)}"


def nearest_names(name: str, known: Iterable[str]) -> list[str]:
    """Returns the known name that is nearest to a wrong one, whatever its case; none if all are too
    different."""
    by_lower = {each.lower(): each for each in known}
    return [by_lower[each] for each in get_close_matches(name.lower(), by_lower, n=1, cutoff=_CUTOFF)]
