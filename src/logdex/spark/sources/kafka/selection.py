"""Which partitions of a log directory `kafka_log` reads, and from which offset to which: the
options of Spark's own `kafka` source."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from logdex.errors import UsageError
from logdex.kafka.internal_topics import INTERNAL_TOPICS
from logdex.primitives.wrong_questions import require_order, require_order_of_times, unknown_part, unknown_topic
from logdex.spark.sources.options import Options, given_but_not_read

EARLIEST, LATEST = -2, -1
SELECTING = ("subscribe", "subscribePattern", "assign")
OFFSETS = (
    *("startingOffsets", "endingOffsets", "startingTimestamp", "endingTimestamp"),
    *("startingOffsetsByTimestamp", "endingOffsetsByTimestamp", "startingOffsetsByTimestampStrategy"),
)

_WORDS = {"earliest": EARLIEST, "latest": LATEST}

_WORDS_BY_END = {EARLIEST: "-2 is earliest", LATEST: "-1 is latest"}
"""What a batch read may begin or end at, beside offsets."""

Partition = tuple[str, int]
Numbers = Mapping[Partition, int]
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

    def require_known(self, known: Collection[Partition], limits: tuple[Limit, Limit], path: str) -> None:
        """Raises `MissingFileError`, with the nearest name, for a topic or a partition that was
        asked for, or that a limit names, and that is not among those that are known at a path."""
        for topic in sorted(self.topics or ()):
            require_known(known, topic, None, path)
        for name in sorted(self.partitions or ()):
            require_known(known, *name, path)
        for limit in limits:
            for name in sorted({**(limit.timestamps_ms or {}), **(limit.offsets or {})}):
                require_known(known, *name, path)


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
        timestamp_ms = options.time_ms(f"{which}Timestamp")
        by_time = f"{which}OffsetsByTimestamp"
        timestamps_ms = None if options.text(by_time) is None else _parse(options, by_time, 0, None)
        name = f"{which}Offsets"
        if streaming:
            word = (options.text(name) or "latest").strip().lower()
            if word in _WORDS:
                return Limit(_WORDS[word], timestamp_ms, timestamps_ms)
            return Limit(otherwise, timestamp_ms, timestamps_ms, _parse(options, name, EARLIEST, None))
        return Limit(otherwise, timestamp_ms, timestamps_ms, _offsets(options, name, otherwise))

    def require_all(self, partitions: frozenset[Partition]) -> None:
        """Raises `UsageError` unless a number per partition is given for exactly `partitions`."""
        for given in (self.timestamps_ms, self.offsets):
            if given is None or self.timestamp_ms is not None:
                continue
            for topic, partition in sorted(given.keys() - partitions):
                raise given_but_not_read(f"{topic}-{partition}")
            for topic, partition in sorted(partitions - given.keys()):
                raise UsageError(
                    f"offsets are given, but none for {topic}-{partition}",
                    hint=f"give one for each partition that is read; {_WORDS_BY_END[self.otherwise]}",
                )

    def time_of(self, partition: Partition) -> int | None:
        """Returns the timestamp that is given for a partition."""
        return (self.timestamps_ms or {}).get(partition) if self.timestamp_ms is None else self.timestamp_ms

    def offset_of(self, partition: Partition) -> int | None:
        """Returns the offset that is given for a partition and that no timestamp replaces."""
        if self.timestamp_ms is not None or self.timestamps_ms is not None:
            return None
        offset = (self.offsets or {}).get(partition, EARLIEST)
        return None if offset < 0 else offset

    def offset(
        self, partition: Partition, earliest: int, latest: int, by_time: Callable[[int], int | None]
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


def require_partitions(limits: tuple[Limit, Limit], partitions: frozenset[Partition]) -> None:
    """Raises `UsageError` unless both limits have numbers for exactly `partitions`, if they have
    any, and the first is not behind the second."""
    for limit in limits:
        limit.require_all(partitions)
    begin, end = limits
    for name in sorted(partitions):
        of = "" if None not in (begin.timestamp_ms, end.timestamp_ms) else " of {}-{}".format(*name)
        require_order_of_times(
            **{f"the starting timestamp{of}": begin.time_of(name), "the ending timestamp": end.time_of(name)}
        )
        require_order(**{f"the starting offset{of}": begin.offset_of(name), "the ending offset": end.offset_of(name)})


def require_known(known: Collection[Partition], topic: str, partition: int | None, path: str) -> None:
    """Raises `MissingFileError`, with the nearest name, for a topic, or one of its partitions, that
    is not among the known ones."""
    numbers = [number for name, number in known if name == topic]
    if not numbers:
        raise unknown_topic(topic, {name for name, _ in known}, path)
    if partition is not None and partition not in numbers:
        raise unknown_part("partition", partition, topic, numbers, path)


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
