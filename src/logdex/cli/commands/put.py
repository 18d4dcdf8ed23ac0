"""`logdex put`: appends messages to a store or a partition."""

from __future__ import annotations

from typing import Annotated

import typer

from logdex.cli.app import app, epilog
from logdex.cli.find_view import create_at, show
from logdex.cli.options import JsonOption, PartitionOption, PathOptions, QueueOption, path_command
from logdex.errors import NotAStoreError, UsageError
from logdex.formats import FORMATS
from logdex.io.env import DEFAULT_ENV
from logdex.io.path_look import PathLook


@app.command(
    epilog=epilog(
        "logdex put inbox --create rocketmq --topic orders --keys order-17 --tags paid --body 'thank you'",
        "logdex put events-0 --create kafka --key user-9 --value hello --header trace=1 --json",
        notes="With --file, each line is a JSON object with the fields of `logdex cat --json`, of which all may be "
        "missing; body_text, key_text and value_text are text where body, key and value are base64. Flags fill in "
        "what a line does not state. What is printed is on disk. A store that a broker has open is refused.",
    )
)
@path_command
def put(
    target: PathOptions,
    topic: Annotated[str | None, typer.Option("--topic", help="The topic.", show_default=False)] = None,
    queue: QueueOption = None,
    partition: PartitionOption = None,
    body: Annotated[str | None, typer.Option(help="The body (RocketMQ).", show_default=False)] = None,
    tags: Annotated[str | None, typer.Option(help="The tag (RocketMQ).", show_default=False)] = None,
    keys: Annotated[
        list[str] | None, typer.Option("--keys", help="A key; may be repeated (RocketMQ).", show_default=False)
    ] = None,
    delay_level: Annotated[
        int | None, typer.Option(help="Deliver later: 1 is the first level (RocketMQ).", min=1, show_default=False)
    ] = None,
    key: Annotated[str | None, typer.Option(help="The key (Kafka).", show_default=False)] = None,
    value: Annotated[str | None, typer.Option(help="The value (Kafka).", show_default=False)] = None,
    header: Annotated[
        list[str] | None,
        typer.Option("--header", metavar="NAME=VALUE", help="A header; may be repeated (Kafka).", show_default=False),
    ] = None,
    no_timestamp_check: Annotated[
        bool, typer.Option("--no-timestamp-check", help="Take records of any time, as a copy of old data has (Kafka).")
    ] = False,
    file: Annotated[
        typer.FileText | None,
        typer.Option(
            "--file",
            metavar="JSONL",
            help="JSON lines, - for stdin.",
            encoding="utf-8",
            errors="surrogateescape",
            lazy=True,
            show_default=False,
        ),
    ] = None,
    create: Annotated[
        str | None,
        typer.Option(
            metavar="FORMAT", help=f"Create what is missing at PATH: {' or '.join(FORMATS)}.", show_default=False
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Append messages to a store or a partition. Exit 0 good, 2 cannot run or not taken."""
    if create is not None and create not in FORMATS:
        raise UsageError(f"no format is named {create}", hint=f"give --create {' or --create '.join(FORMATS)}")
    own = {"topic": topic, "queue": queue, "partition": partition, "body": body, "tags": tags, "keys": keys or None}
    own |= {"delay_level": delay_level, "key": key, "value": value, "header": header or None}
    own |= {"no_timestamp_check": no_timestamp_check or None}
    if not PathLook(target.path, DEFAULT_ENV).exists():
        if create is None:
            hint = f"--create {' or --create '.join(FORMATS)} creates it"
            raise NotAStoreError("there is no such file or directory", path=target.path, hint=hint)
        create_at("put", target, create, queue)
    show("put", target, **own, file=file, create=create is not None, as_json=as_json)
