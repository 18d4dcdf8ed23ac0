"""`logdex offsets`: shows how far consumer groups have read, and resets them."""

from __future__ import annotations

from typing import Annotated

import typer

from logdex.cli.app import PROBLEMS_FOUND, app, epilog
from logdex.cli.find_view import show
from logdex.cli.options import JsonOption, PathOptions, TopicOption, path_command
from logdex.cli.output import hint, note
from logdex.cli.times import parse_time
from logdex.errors import UsageError
from logdex.primitives.wrong_questions import require_longs


@app.command(
    epilog=epilog(
        "logdex offsets store --group billing --topic orders",
        "logdex offsets store --group billing --topic orders --reset-to latest",
        "logdex offsets store --group billing --topic orders --reset-to 2026-03-05T12:00:00Z --json",
        "logdex offsets logs --topic orders --group billing",
        notes="A reset is shown first and changes nothing; --yes makes it. A group with running consumers, and a store "
        "with a running broker, are refused. Of a Kafka log directory the broker's groups are shown, and Logdex's own "
        "named readers, which alone can be reset.",
    )
)
@path_command
def offsets(
    target: PathOptions,
    group: Annotated[str | None, typer.Option("--group", help="Only this group.", show_default=False)] = None,
    topic: TopicOption = None,
    reset_to: Annotated[
        str | None,
        typer.Option(
            "--reset-to",
            metavar="PLACE",
            help="earliest, latest, an offset, or a time in ISO 8601 (UTC if no zone is given).",
            show_default=False,
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Reset, and do not only show it.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Show how far groups have read and how much is left. Exit 0 good, 1 damage found, 2 cannot
    run."""
    if yes and reset_to is None:
        raise UsageError("--yes resets offsets", hint="give --reset-to earliest, latest, an offset or a time")
    time_ms = None
    if reset_to is not None:
        if group is None or topic is None:
            raise UsageError("which offsets?", hint="give --group G and --topic T")
        if reset_to.isdecimal():
            require_longs(**{"--reset-to": int(reset_to[:25])})
        elif reset_to not in ("earliest", "latest"):
            time_ms = _time_of(reset_to)
    own = {"group": group, "topic": topic, "reset_to": reset_to, "time_ms": time_ms, "yes": yes}
    is_good = show("offsets", target, **own, as_json=as_json)
    if yes:
        note("these offsets were reset")
    elif reset_to is not None:
        note("nothing was changed")
        hint("add --yes to reset")
    if not is_good:
        raise typer.Exit(PROBLEMS_FOUND)


def _time_of(text: str) -> int:
    try:
        if text.lstrip("-").isdecimal():
            raise UsageError(f"{text} is no offset")
        return parse_time(text)
    except UsageError:
        known = "give earliest, latest, an offset, or a time such as 2026-03-02T08:00:00Z"
        raise UsageError(f"{text!r} is no time and no offset", hint=known) from None
