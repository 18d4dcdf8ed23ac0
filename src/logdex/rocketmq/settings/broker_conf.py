"""The broker's properties file (``broker.conf``), which has the store's sizes.

Source: java.util.Properties, MessageStoreConfig. Other settings are ignored.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from logdex import limits
from logdex.errors import CorruptError
from logdex.io.env import DEFAULT_ENV, Env

_SIZES = ("mappedFileSizeCommitLog", "mappedFileSizeConsumeQueue", "maxHashSlotNum", "maxIndexNum")
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_NATURAL_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n|$)")
_KEY_END = re.compile(r"(?<!\\)(?:\\\\)*(?P<end>[ \t\f]*[=:][ \t\f]*|[ \t\f]+)")


@dataclass(frozen=True, slots=True)
class BrokerConf:
    """The settings of a store in a properties file; None for a missing one."""

    path: str
    sizes: dict[str, int] = field(default_factory=dict)
    """The sizes that are there, by the broker's names: mappedFileSizeCommitLog (bytes), …"""
    message_delay_level: str | None = None
    store_path_commit_log: str | None = None
    properties: dict[str, str] = field(default_factory=dict)
    """All properties of the file."""

    @staticmethod
    def read(path: str, *, env: Env = DEFAULT_ENV) -> BrokerConf:
        """Reads the file at `path`.

        Raises `CorruptError`, with a position, for a size that is no whole number and for an
        invalid escape.
        """
        text = env.read_file(path, limits.BROKER_CONF_SIZE_BYTES_MAX).decode("utf-8", "replace")
        properties: dict[str, str] = {}
        sizes: dict[str, int] = {}
        for position, name, value in _pairs(text, path):
            properties[name] = value
            if name in _SIZES:
                sizes[name] = _whole_number(name, value, path, position)
        return BrokerConf(
            path=path,
            sizes=sizes,
            message_delay_level=properties.get("messageDelayLevel"),
            store_path_commit_log=properties.get("storePathCommitLog"),
            properties=properties,
        )


def _whole_number(name: str, value: str, path: str, position: int) -> int:
    text = value.strip()
    if not re.fullmatch(r"[+-]?[0-9]{1,10}", text):
        raise CorruptError(
            "the value is not a whole number", path=path, position=position, field=name, expected="bytes", found=value
        )
    return int(text)


def parse_properties_text(text: str, path: str = "<text>") -> dict[str, str]:
    """The pairs of a Java properties text. The last of equal names wins."""
    return {name: value for _, name, value in _pairs(text, path)}


def _pairs(text: str, path: str) -> Iterator[tuple[int, str, str]]:
    """Yields (position in characters, name, value) of each logical line."""
    for position, line in _logical_lines(text):
        found = _KEY_END.search(line)
        name, value = (line, "") if found is None else (line[: found.start("end")], line[found.end("end") :])
        yield position, _unescape(name, path, position), _unescape(value, path, position)


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yields lines that are neither comments nor blank; a line that ends in a backslash
    continues."""
    start, joined = 0, ""
    for found in _NATURAL_LINE.finditer(text):
        line = found[0].rstrip("\r\n").lstrip(" \t\f")
        if not joined:
            start = found.start()
            if not line or line[0] in "#!":
                continue
        odd = (len(line) - len(line.rstrip("\\"))) % 2
        joined += line[: len(line) - odd]
        if not odd or found.end() == len(text):
            if joined:
                yield start, joined
            joined = ""


def _unescape(text: str, path: str, position: int) -> str:
    def replace(found: re.Match[str]) -> str:
        code = found[1]
        if code[0] == "u":
            if len(code) != 5:
                raise CorruptError("the \\uXXXX escape is incomplete", path=path, position=position, field=found[0])
            return chr(int(code[1:], 16))
        return _ESCAPES.get(code, code)

    return re.sub(r"\\(u[0-9a-fA-F]{4}|.)", replace, text)
