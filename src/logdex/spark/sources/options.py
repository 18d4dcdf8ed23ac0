"""The options of a source: text by name, whatever the case of the name, as Spark passes them."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from logdex.errors import UsageError
from logdex.formats.format import Format
from logdex.primitives.wrong_questions import LONG_MAX, nearest

STREAM_OPTIONS = ("maxOffsetsPerTrigger", "maxBytesPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay")
"""The options that only a stream uses, as those of the same name of Spark's own sources."""
COMMON_OPTIONS = (
    *("path", "paths", "columns", "mode", "failOnDataLoss"),
    *("maxPartitionBytes", "minPartitions", "maxRecordsPerPartition"),
    *STREAM_OPTIONS,
)
"""The options that every source has."""

STORAGE_PREFIX = "storage."
"""What the names of fsspec's options begin with, for paths with a scheme."""

_UNITS = {"": 0, "b": 0, "k": 10, "m": 20, "g": 30, "t": 40}
_SIZE = re.compile(r"(\d{1,18})\s*([bkmgt]?)i?b?", re.IGNORECASE | re.ASCII)
_SECONDS = {"": 0.001, "us": 1e-6, "ms": 0.001, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}
_DURATION = re.compile(r"(\d{1,18})\s*(us|ms|s|m|min|h|d)?", re.IGNORECASE | re.ASCII)
_SECONDS_OF_DAYS = range(1_000_000_000, 5_000_000_000)
"""The seconds since the epoch of the years 2001 to 2128."""
_BOOLEANS = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class Options:
    """The options that a user gave to the source `source`. `known` are the names of all options,
    and `of_others` are hints for names that other sources have, and for the first part of such
    names if they end with a dot. Raises `UsageError` for a name that is not known, with its hint or
    with the known name that is nearest to it."""

    source: str
    given: Mapping[str, str]
    known: tuple[str, ...]
    of_others: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "given", {name.lower(): value for name, value in self.given.items()})
        by_lower = {name.lower(): name for name in self.known}
        for name in self.given:
            if name not in by_lower and not name.startswith(STORAGE_PREFIX):
                others = {other.lower(): hint for other, hint in self.of_others.items()}
                hint = others.get(name) or others.get(f"{name.partition('.')[0]}.")
                hint = hint or nearest(name, by_lower, self.known)
                raise UsageError(f"{self.source} has no option {name!r}", hint=hint)

    def text(self, name: str) -> str | None:
        """Returns the value of an option, or None if it is not given."""
        return self.given.get(name.lower())

    def wrong(self, name: str, hint: str) -> UsageError:
        """Returns the error of an option whose value is not valid."""
        return UsageError(f"the option {name} is {self.text(name)!r}", hint=hint)

    def impossible_offset(self, name: str, is_latest: bool) -> UsageError:
        """Returns the error of a batch read that would begin at the latest offset, or end at the
        earliest one."""
        what = "-1 is the latest offset, at which only a stream begins" if is_latest else "-2 is the earliest offset"
        return self.wrong(name, f"{what}: give another one, or leave the option out")

    def boolean(self, name: str, default: bool) -> bool:
        """Returns the value of an option that is ``true`` or ``false``."""
        value = self.text(name)
        if value is None:
            return default
        if value.strip().lower() not in _BOOLEANS:
            raise self.wrong(name, "say true or false")
        return _BOOLEANS[value.strip().lower()]

    def integer(self, name: str, least: int = 0) -> int | None:
        """Returns the value of an option that is a number of at least `least`, None if not
        given."""
        value = self.text(name)
        if value is None:
            return None
        if re.fullmatch(r"\d{1,19}", value.strip(), re.ASCII) is None or not least <= int(value) <= LONG_MAX:
            raise self.wrong(name, f"say a whole number of {least} or more")
        return int(value)

    def time_ms(self, name: str) -> int | None:
        """Returns the value of an option that is a time in milliseconds, None if not given. The
        error for a time in ISO 8601 has it in milliseconds."""
        try:
            return self.integer(name)
        except UsageError:
            example = _milliseconds(self.text(name) or "")
            raise self.wrong(name, f"say milliseconds since the epoch, such as {example}") from None

    def times_in_seconds(self) -> list[str]:
        """Returns a note for each time of the options that is a usual one if it was in seconds."""
        return [
            f"{self.source}: {name} is {value} ms, which is early in 1970: if that is in seconds, write {value}000"
            for name in ("startingTimestamp", "endingTimestamp")
            if (value := self.time_ms(name)) is not None and value in _SECONDS_OF_DAYS
        ]

    def size_bytes(self, name: str, default: int) -> int:
        """Returns the value of an option that is a size: a number of bytes, or such as ``64m``."""
        value = self.text(name)
        if value is None:
            return default
        found = _SIZE.fullmatch(value.strip())
        size = int(found[1]) << _UNITS[found[2].lower()] if found else 0
        if size < 1:
            raise self.wrong(name, "say a number of bytes, or a size such as 64m")
        return size

    def seconds(self, name: str, default: float) -> float:
        """Returns the value of an option that is a time such as ``15m``, as Spark writes them: a
        number without a unit is of milliseconds."""
        value = self.text(name)
        if value is None:
            return default
        found = _DURATION.fullmatch(value.strip())
        if found is None:
            raise self.wrong(name, "say a time such as 500ms, 30s, 15m or 1h")
        return int(found[1]) * _SECONDS[(found[2] or "").lower()]

    def refuse_in_streams(self, *names: str) -> None:
        """Raises `UsageError` if one of some options is given, because a stream has no end."""
        for name in names:
            if self.text(name) is not None:
                raise UsageError(f"the option {name} is for batch reads", hint="a stream reads on until it is stopped")

    def choice(self, name: str, allowed: Collection[str], default: str) -> str:
        """Returns the value of an option that is one of `allowed`, whatever its case."""
        value = self.text(name)
        if value is None:
            return default
        by_lower = {each.lower(): each for each in allowed}
        if value.strip().lower() not in by_lower:
            raise self.wrong(name, nearest(value, by_lower, allowed))
        return by_lower[value.strip().lower()]

    def names(self, name: str) -> tuple[str, ...] | None:
        """Returns the value of an option that lists names between commas, None if not given."""
        value = self.text(name)
        if value is None:
            return None
        found = tuple(each.strip() for each in value.split(","))
        if not all(found):
            raise self.wrong(name, "say one name, or several with commas between them")
        return found

    def storage(self) -> dict[str, Any]:
        """Returns fsspec's options: those that begin with ``storage.``. A value may be JSON's
        ``true``, ``false``, an object or an array; all else is text."""
        found: dict[str, Any] = {}
        for name, value in self.given.items():
            if name.startswith(STORAGE_PREFIX):
                is_json = value.strip() in ("true", "false") or value.lstrip()[:1] in ("{", "[")
                try:
                    found[name.removeprefix(STORAGE_PREFIX)] = json.loads(value) if is_json else value
                except ValueError:
                    raise self.wrong(name, "the value is no JSON object or array") from None
        return found

    def settings(self, form: Format) -> dict[str, object]:
        """Returns those settings of a format that are given, under the names that `open` takes."""
        found: dict[str, object] = {}
        for option, (name, is_number) in format_settings(form).items():
            if self.text(option) is not None:
                found[name] = self.integer(option) if is_number else self.text(option)
        return found


def _milliseconds(text: str) -> int:
    """Returns a time in ISO 8601, in UTC if it has no zone, as milliseconds; for other text some
    time."""
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        return 1_764_374_400_000
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def given_but_not_read(what: str) -> UsageError:
    """Returns the error of offsets for a topic or a partition that another option leaves out."""
    return UsageError(f"offsets are given for {what}, which is not read", hint="leave it out of them, or read it too")


def format_settings(form: Format) -> dict[str, tuple[str, bool]]:
    """Returns, by the broker's name for it (``mappedFileSizeCommitLog``), the name of each setting
    of a format that is no file's content, and whether it is a number."""
    return {
        camel_case(setting.name): (setting.name, setting.value_type in (int, int | None))
        for setting in form.settings
        if setting.flag is not None
    }


def camel_case(name: str) -> str:
    """Returns ``mapped_file_size`` as ``mappedFileSize``."""
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
