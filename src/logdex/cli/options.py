"""Options that several commands share, stated once: the store's path, its geometry and version, times, `--json`.

`store_command` gives a command all geometry flags: its parameter `store: StoreOptions` becomes the argument PATH and
the flags under the broker's own names.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Annotated, Any

import typer

from logdex.cli.times import parse_time
from logdex.errors import UsageError

PathArgument = Annotated[
    str,
    typer.Argument(
        metavar="PATH",
        help="A RocketMQ store's root (the folder that holds commitlog/) or one CommitLog file, a Kafka log directory, "
        "one topic-N directory or one .log file.",
        show_default=False,
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="JSON lines on stdout.")]
NoSyncOption = Annotated[bool, typer.Option("--no-sync", help="Leave out fsync: faster, unsafe if power fails.")]
TopicOption = Annotated[str | None, typer.Option("--topic", help="Only this topic.", show_default=False)]
PartitionOption = Annotated[
    int | None, typer.Option("--partition", help="Only this partition (Kafka).", min=0, show_default=False)
]
QueueOption = Annotated[int | None, typer.Option("--queue", help="Only this queue id (RocketMQ).", show_default=False)]


def time_option(flag: str, what: str) -> Any:
    """An option that takes a time."""
    return typer.Option(flag, parser=parse_time, metavar="TIME", help=what, show_default=False)


FromOption = Annotated[
    int | None, time_option("--from", "Stored at or after: epoch milliseconds or ISO 8601, UTC if no zone is given.")
]
ToOption = Annotated[int | None, time_option("--to", "Stored at or before, this very millisecond included.")]


def _geometry(flag: str, what: str, **more: Any) -> Any:
    return typer.Option(flag, help=what, show_default=False, rich_help_panel="Geometry", **more)


_KAFKA_SETTINGS = ("index_interval_bytes", "segment_bytes", "kafka_version")


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """PATH and what no file of a store states; None: inferred from the files, else the broker's default."""

    path: PathArgument
    mapped_file_size_commit_log: Annotated[
        int | None,
        _geometry("--mapped-file-size-commit-log", "mappedFileSizeCommitLog of the broker, bytes.", metavar="BYTES"),
    ] = None
    mapped_file_size_consume_queue: Annotated[
        int | None,
        _geometry(
            "--mapped-file-size-consume-queue", "mappedFileSizeConsumeQueue of the broker, bytes.", metavar="BYTES"
        ),
    ] = None
    max_hash_slot_num: Annotated[
        int | None, _geometry("--max-hash-slot-num", "maxHashSlotNum of the broker.", metavar="N")
    ] = None
    max_index_num: Annotated[int | None, _geometry("--max-index-num", "maxIndexNum of the broker.", metavar="N")] = None
    rocketmq_version: Annotated[
        str | None, _geometry("--rocketmq-version", "Version of the broker that wrote the store.", metavar="VERSION")
    ] = None
    broker_conf: Annotated[
        str | None, _geometry("--broker-conf", "The broker's properties file, for all of these.", metavar="FILE")
    ] = None

    index_interval_bytes: Annotated[
        int | None, _geometry("--index-interval-bytes", "index.interval.bytes of the topic (Kafka).", metavar="BYTES")
    ] = None
    segment_bytes: Annotated[
        int | None, _geometry("--segment-bytes", "segment.bytes of the topic (Kafka).", metavar="BYTES")
    ] = None
    kafka_version: Annotated[
        str | None, _geometry("--kafka-version", "Version of the broker that wrote the log (Kafka).", metavar="VERSION")
    ] = None

    def geometry(self) -> dict[str, Any]:
        """The flags of a RocketMQ store that were given, as keyword arguments of `logdex.open`."""
        return {name: value for name, value in self._given().items() if name not in _KAFKA_SETTINGS}

    def kafka_settings(self) -> dict[str, Any]:
        """Those of a Kafka log."""
        return {name: value for name, value in self._given().items() if name in _KAFKA_SETTINGS}

    def _given(self) -> dict[str, Any]:
        given = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "path"}
        return {name: value for name, value in given.items() if value is not None}


def output_target(command: str, path: str, output: str | None, *, in_place: bool) -> str:
    """Where `command` writes: `output`, or `path` itself; `UsageError` unless just one of them is said."""
    if in_place and output is not None:
        raise UsageError("--output and --in-place exclude each other", hint="say one of them")
    if in_place:
        return path
    if output is None:
        raise UsageError("where to?", hint=f"logdex {command} {path} --output DIR, or --in-place")
    return output


def store_command(function: Callable[..., None]) -> Callable[..., None]:
    """A command whose parameter `store` is a `StoreOptions`: PATH comes first, the geometry flags last."""
    own = [parameter for parameter in _parameters(function) if parameter.name != "store"]
    shared = _parameters(StoreOptions)
    names = [parameter.name for parameter in shared]

    @functools.wraps(function)
    def command(**given: Any) -> None:
        options = {name: given.pop(name) for name in names}
        options["path"] = options["path"].rstrip("/") or options["path"][:1]  # paths below it are joined with one /
        store = StoreOptions(**options)
        function(store=store, **given)

    keyword = inspect.Parameter.KEYWORD_ONLY
    merged = [parameter.replace(kind=keyword) for parameter in (shared[0], *own, *shared[1:])]
    command.__signature__ = inspect.Signature(merged)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in merged}
    del command.__wrapped__
    return command


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    return list(inspect.signature(function, eval_str=True).parameters.values())
