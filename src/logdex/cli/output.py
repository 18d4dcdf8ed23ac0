"""The output of commands: data goes to stdout (text or JSON lines), everything else to stderr,
always in clean lines.

Bytes that are not UTF-8 are shown with backslashes. So are control characters in text, so that the
contents of a store cannot control a terminal; in JSON they are escaped as JSON requires.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

from logdex.primitives.shown import counted, utc_time

if TYPE_CHECKING:
    from logdex.jobs.reports import RecoverReport

_SURROGATE = re.compile("[\ud800-\udfff]")
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")

_COMMAND = re.compile(r"(?<!install )\blogdex (?=[a-z]+\b)")

program = "logdex"
"""How the user's shell starts this command line, for hints. `main` sets it."""
_told_ahead: set[str] = set()
KEPT_SHOWN = 3
VALUE_SHOWN = 120
"""The most characters of a body or a value that a line shows."""


def shown(value: bytes | str) -> str:
    """Returns text for display on one line. Bytes that are not UTF-8 and control characters are
    shown with backslashes."""
    text = _text_of(value)
    if text.isprintable():  # most texts are, and this is quick
        return text
    return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", _SURROGATE.sub(_escape, text))


def _text_of(value: bytes | str) -> str:
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else value


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    # Python represents a byte of a file name that is not UTF-8 as a surrogate.
    return f"\\x{code - 0xDC00:02x}" if 0xDC80 <= code <= 0xDCFF else f"\\u{code:04x}"


def shown_start(value: bytes | str) -> str:
    """Returns the beginning of a value, at most `VALUE_SHOWN` characters."""
    text = shown(_text_of(value[: 4 * VALUE_SHOWN + 4])[: VALUE_SHOWN + 1])
    return text if len(text) <= VALUE_SHOWN else text[: VALUE_SHOWN - 1] + "…"


def emit(line: str) -> None:
    """Prints one line of data."""
    sys.stdout.write(shown(line) + "\n")


def emit_json(value: Mapping[str, Any]) -> None:
    """Prints one JSON line of data."""
    sys.stdout.write(json_text(value) + "\n")


def json_text(value: Any) -> str:
    """Returns a value as JSON on one line."""
    text = json.dumps(value, ensure_ascii=False, separators=(", ", ": "))
    return _SURROGATE.sub(lambda found: "\\" + _escape(found), text)


def note(line: str) -> None:
    """Prints one line for the user, on stderr."""
    sys.stdout.flush()  # keeps the order of lines if both streams go to the same place
    sys.stderr.write(f"logdex: {shown(line)}\n")


def hint(line: str) -> None:
    """Prints what to type next, below a `note`. Commands are as they work on this machine."""
    sys.stderr.write(f"        {shown(as_typed(line))}\n")


def as_typed(line: str) -> str:
    """Returns a line with its commands as they work on this machine."""
    return _COMMAND.sub(lambda _: f"{program} ", line)


def note_settings(inferred: Iterable[str], assumed: Iterable[str]) -> None:
    """Prints the settings that were not given: those inferred from the files, and those that are
    defaults."""
    for text in inferred:
        note(f"inferred {text}")
    for text in assumed:
        note(f"assumed {text}")


def note_losses(notes: Iterable[str], losses: Iterable[str], what: str) -> None:
    """Prints the remarks of a report, and its losses behind a word for them."""
    for line in notes:
        note(line)
    for line in losses:
        note(f"{what}: {line}")


def note_ahead(message: str, what_next: str | None) -> None:
    """Prints a problem with which a command goes on, as long as it can, and what to type next."""
    fail(message, what_next)
    _told_ahead.add(message)


def fail(message: str, what_next: str | None) -> None:
    """Prints why a command cannot continue, and what to type next, unless `note_ahead` did."""
    if message in _told_ahead:
        return
    note(message)
    if what_next:
        hint(what_next)


def begin() -> None:
    """Begins a command line, of which nothing has been told ahead. Tests run several in a
    process."""
    _told_ahead.clear()


def table(rows: Iterable[tuple[str, ...]], *, right: Iterable[int] = (), indent: str = "  ") -> None:
    """Prints rows in columns, each as wide as its widest cell at a terminal. Columns with a number
    in `right` are aligned to the right."""
    cells = [tuple(map(shown, row)) for row in rows]
    if not cells:
        return
    widths = [max(_terminal_width(row[place]) for row in cells) for place in range(len(cells[0]))]
    numbers = set(right)
    for row in cells:
        parts = []
        for place, (cell, width) in enumerate(zip(row, widths, strict=True)):
            room = " " * (width - _terminal_width(cell))
            parts.append(room + cell if place in numbers else cell + room)
        emit((indent + "  ".join(parts)).rstrip())


def _terminal_width(text: str) -> int:
    """Returns how many columns of a terminal a text takes: a character of Chinese or Japanese takes
    two, a combining accent none."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len  # most tables are ASCII, and need not wait for Rich

    return cell_len(text)


def kept_rows(kept: Mapping[str, str]) -> list[tuple[str, str]]:
    """Returns rows of a `table` that state where replaced files are kept: the first few, and the
    number of the others."""
    rows = [("kept", f"{name} is now {where}") for name, where in islice(kept.items(), KEPT_SHOWN)]
    more = len(kept) - KEPT_SHOWN
    return [*rows, ("", f"and {counted(more, 'other')} likewise; --json names all")] if more > 0 else rows


def human_loss(report: RecoverReport) -> str:
    """Returns what a recovery lost of the log, as far as it is known: 8.7 KiB and 1 file of unknown
    size."""
    if not report.lossy:
        return "nothing"
    unsized = report.unsized_files
    known = [human_size(report.skipped_bytes)] if report.skipped_bytes else []
    known += [f"{counted(unsized, 'file')} of unknown size"] if unsized else []
    return " and ".join(known) or "nothing of the log itself, but what is stated below"


def human_size(size_bytes: int) -> str:
    """Returns a size in binary units: 10.1 MiB."""
    size = float(size_bytes)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(size) < 1024 or unit == "TiB":
            break
        size /= 1024
    return f"{size_bytes} B" if unit == "B" else f"{size:.1f} {unit}"


def human_time(time_ms: int | None) -> str:
    """Returns milliseconds since the epoch as ISO 8601 in UTC, as `--from` and `--to` accept it."""
    return "-" if time_ms is None else utc_time(time_ms)
