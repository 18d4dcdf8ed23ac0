"""Which partitions of a log directory `kafka_log` reads, and from which offset to which: the
options of Spark's own `kafka` source."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from logdex.errors import UsageError
from logdex.kafka.internal_topics import INTERNAL_TOPICS
from logdex.spark.sources.options import Options

EARLIEST, LATEST = -2, -1
SELECTING = ("subscribe", "subscribePattern", "assign")
OFFSETS = (
    *("startingOffsets", "endingOffsets", "startingTimestamp", "endingTimestamp"),
    *("startingOffsetsByTimestamp", "endingOffsetsByTimestamp", "startingOffsetsByTimestampStrategy"),
)

_WORDS = {"earliest": EARLIEST, "latest": LATEST}

Numbers = Mapping[tuple[str, int], int]
"""A number per topic and partition."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The partitions to read. Without an option that selects them, all of them are read, but for
    Kafka's own topics, as consumers that subscribe to a pattern do not see these."""

    topics: frozenset[str] | None = None
    pattern: re.Pattern[str] | None = None
    partitions: frozenset[tuple[str, int]] | None = None

    @staticmethod
    def of(options: Options) -> Selection:
        """Reads the options. Raises `UsageError` for values that are not valid."""
        given = [name for name in SELECTING if options.text(name) is not None]
        if len(given) > 1:
            raise UsageError(f"the options {' and '.join(given)} exclude each other", hint="give one of them")
        topics, text = options.names("subscribe"), options.text("subscribePattern")
        try:
            pattern = None if text is None else re.compile(text)
        except re.error as error:
            raise options.wrong("subscribePattern", f"no regular expression: {error}") from None
        return Selection(None if topics is None else frozenset(topics), pattern, _assigned(options))

    def takes(self, topic: str, partition: int) -> bool:
        """Whether a partition is read."""
        if self.partitions is not None:
            return (topic, partition) in self.partitions
        if self.topics is not None:
            return topic in self.topics
        if topic in INTERNAL_TOPICS:
            return False
        return self.pattern is None or self.pattern.fullmatch(topic) is not None

    def missing(self, found: frozenset[tuple[str, int]]) -> list[str]:
        """Returns the names of topics or partitions that were asked for and are not there."""
        if self.partitions is not None:
            return [f"{topic}-{partition}" for topic, partition in sorted(self.partitions - found)]
        return sorted((self.topics or frozenset()) - {topic for topic, _ in found})


def _assigned(options: Options) -> frozenset[tuple[str, int]] | None:
    text = options.text("assign")
    if text is None:
        return None
    try:
        return frozenset((str(topic), _number(each)) for topic, some in json.loads(text).items() for each in some)
    except (ValueError, AttributeError, TypeError):
        raise options.wrong("assign", 'say JSON such as {"orders": [0, 1]}') from None


def _number(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(value)
    return value


@dataclass(frozen=True, slots=True)
class Limit:
    """One end of what is read: a timestamp for all partitions, else a timestamp for each, else an
    offset for each, else `otherwise` (`EARLIEST` or `LATEST`)."""

    otherwise: int
    timestamp_ms: int | None = None
    timestamps_ms: Numbers | None = None
    offsets: Numbers | None = None

    @staticmethod
    def of(options: Options, which: str, *, streaming: bool = False) -> Limit:
        """Reads the options that begin with `which`, ``starting`` or ``ending``. A stream begins at
        the latest offsets unless an option says otherwise, as with Spark's own source."""
        otherwise = LATEST if streaming or which == "ending" else EARLIEST
        timestamp_ms = options.integer(f"{which}Timestamp")
        by_time = f"{which}OffsetsByTimestamp"
        timestamps_ms = None if options.text(by_time) is None else _parse(options, by_time, 0, None)
        name = f"{which}Offsets"
        if streaming:
            word = (options.text(name) or "latest").strip().lower()
            if word in _WORDS:
                return Limit(_WORDS[word], timestamp_ms, timestamps_ms)
            return Limit(otherwise, timestamp_ms, timestamps_ms, _parse(options, name, EARLIEST, None))
        return Limit(otherwise, timestamp_ms, timestamps_ms, _offsets(options, name, otherwise))

    def require_all(self, partitions: frozenset[tuple[str, int]]) -> None:
        """Raises `UsageError` unless a number per partition is given for exactly `partitions`."""
        for given in (self.timestamps_ms, self.offsets):
            if given is None or self.timestamp_ms is not None:
                continue
            missing, strange = sorted(partitions - given.keys()), sorted(given.keys() - partitions)
            if missing or strange:
                name = "{}-{}".format(*(missing or strange)[0])
                what = f"offsets are given, but none for {name}" if missing else f"there is no partition {name}"
                raise UsageError(what, hint="give one for each partition that is read; -2 is earliest, -1 latest")

    def offset(
        self, partition: tuple[str, int], earliest: int, latest: int, by_time: Callable[[int], int | None]
    ) -> int | None:
        """Returns the offset for a partition with offsets [earliest, latest). `by_time` finds the
        first offset at or after a timestamp. None if there is none for a timestamp."""
        timestamp_ms = self.timestamp_ms
        if timestamp_ms is None and self.timestamps_ms is not None:
            timestamp_ms = self.timestamps_ms[partition]
        if timestamp_ms is not None:
            return by_time(timestamp_ms)
        offset = self.otherwise if self.offsets is None else self.offsets[partition]
        return {EARLIEST: earliest, LATEST: latest}.get(offset, offset)


def _offsets(options: Options, name: str, otherwise: int) -> Numbers | None:
    text = options.text(name)
    if text is None or text.strip().lower() == {EARLIEST: "earliest", LATEST: "latest"}[otherwise]:
        return None
    return _parse(options, name, EARLIEST, EARLIEST + LATEST - otherwise)


def _parse(options: Options, name: str, least: int, impossible: int | None) -> Numbers:
    """Returns the numbers of ``{"topic": {"0": 23}}``, each of at least `least` and not
    `impossible`: a batch neither begins at the latest offset nor ends at the earliest."""
    word = "earliest, or " if name == "startingOffsets" else "latest, or " if name == "endingOffsets" else ""
    wrong = options.wrong(name, f'say {word}JSON such as {{"orders": {{"0": 23, "1": 42}}}}')
    try:
        given = json.loads(options.text(name) or "")
        found = {(str(t), int(p)): _number(number) for t, some in given.items() for p, number in some.items()}
    except (ValueError, AttributeError, TypeError):
        raise wrong from None
    if impossible in found.values():
        raise options.impossible_offset(name, impossible == LATEST)
    if any(number < least for number in found.values()):
        raise wrong
    return found
