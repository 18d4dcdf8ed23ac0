"""docs/formats against the code and against real bytes.

The byte tables are those of `logdex.layout`; the worked examples are read again from the stores in
tests/conformance/rocketmq/stores and decoded again. Marks in the pages, as HTML comments:

    <!-- layout: NAME -->                           the next table is that Layout's
    <!-- example: store=S file=F at=N size=N as=K --> the next block is a hex dump, the next table what it decodes to;
                                                    log=S instead: one of tests/conformance/kafka/stores
    <!-- file: store=S file=F -->                   the next block is that text file
    <!-- files: store=S -->                         the next block is all of its files, with their sizes
    <!-- hashes: slots=N -->                        the next table: text, String.hashCode, key hash, slot
    <!-- committed: log=S -->                       the next table: what the groups of that log directory have committed
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from logdex.kafka.directory.log_dir import KafkaLogDir
from logdex.kafka.internal_topics.message_reader import MessageReader
from logdex.layout import kafka, rocketmq
from logdex.layout.base import Layout
from logdex.primitives.host import Host
from logdex.primitives.java_hash import index_key_hash, java_hash
from logdex.rocketmq.message.stored_message import StoredMessage, decode_message
from tests.golden import rocketmq as golden
from tests.golden.archives import ROOT

FORMATS = ROOT / "docs" / "formats"
PAGES = sorted(FORMATS.glob("*.md"))
TYPES = {"b": "int8", "h": "int16", "i": "int32", "I": "uint32", "q": "int64"}
LAYOUTS = {
    value.name: value for module in (rocketmq, kafka) for value in vars(module).values() if isinstance(value, Layout)
}
UNIQUE_KEY_TAIL = struct.Struct(">HIIH")

GoldenStore = Callable[..., Path]
GoldenLog = Callable[[str], Path]
Row = tuple[str, ...]


def marks(kind: str) -> list[tuple[Path, str, str]]:
    """(page, what the mark says, the page's text after it) of every mark of a kind."""
    found = []
    for page in PAGES:
        text = page.read_text("utf-8")
        for mark in re.finditer(rf"<!-- {kind}: (.*?) -->\n", text):
            found.append((page, mark.group(1), text[mark.end() :]))
    return found


def table(text: str) -> list[Row]:
    """Cells of the first table in `text`, header and rule left out, backticks taken off."""
    lines = text[text.index("|") :].splitlines()
    rows = []
    for line in lines[2:]:
        if not line.startswith("|"):
            break
        cells = re.split(r"(?<!\\)\|", line.strip()[1:-1])
        rows.append(tuple(cell.strip().strip("`").replace("\\|", "|") for cell in cells))
    return rows


def block(text: str) -> str:
    """The first fenced block in `text`."""
    found = re.match(r"\s*```\w*\n(.*?)\n```", text, re.DOTALL)
    assert found, "no fenced block follows the mark"
    return found.group(1)


@dataclass(frozen=True)
class Example:
    """`size` bytes at byte `at` of `file` in the store `store` (or in its recovered directory),
    decoded as `kind`."""

    store: str
    file: str
    at: int
    size: int
    kind: str
    recovered: bool
    is_kafka: bool

    @staticmethod
    def parse(text: str) -> Example:
        given = dict(part.split("=", 1) for part in text.split())
        name, _, which = given.get("store", given.get("log", "")).partition("/")
        place = int(given["at"]), int(given["size"])
        return Example(name, given["file"], *place, given["as"], which == "recovered", "log" in given)


def example_bytes(example: Example, store: GoldenStore, log: GoldenLog | None = None) -> bytes:
    """The bytes that an example is about; for the two kinds of message id, those of the id of the
    message there."""
    root = log(example.store) if example.is_kafka and log else store(example.store, recovered=example.recovered)
    with (root / example.file).open("rb") as stream:
        stream.seek(example.at)
        raw = stream.read(example.size)
    assert len(raw) == example.size
    if example.kind == "message-id":
        message = decode_message(raw)[0]
        return message.store_host.pack() + struct.pack(">q", message.physical_offset)
    if example.kind == "unique-key":
        return bytes.fromhex((decode_message(raw)[0].unique_key or b"").decode("ascii"))
    return raw


def hex_dump(raw: bytes) -> str:
    """Sixteen bytes a line: position, hex, printable ASCII."""
    lines = []
    for at in range(0, len(raw), 16):
        part = raw[at : at + 16]
        shown = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
        lines.append(f"{at:04x}  {part.hex(' '):<47}  {shown}")
    return "\n".join(lines)


def shown(value: object) -> str:
    """A value as the pages write it: text as UTF-8, control characters and other bytes as \\xNN."""
    if isinstance(value, bytes):
        text = value.decode("utf-8", "backslashreplace")
        return "".join(char if char >= " " else f"\\x{ord(char):02x}" for char in text)
    return str(value)


def message_values(message: StoredMessage) -> dict[str, str]:
    """The fields of a message, then what its properties say."""
    values = {name: shown(getattr(message, name)) for name in message.__dataclass_fields__ if name != "magic"}
    values["magic"] = f"{message.magic:08x}"
    values["keys"] = ", ".join(map(shown, message.keys))
    values["unique_key"] = shown(message.unique_key)
    values["tags"] = shown(message.tags)
    return values


def offset_commit_values(example: Example, raw: bytes) -> dict[str, str]:
    """The fields of a record's key or (version 4) value in `__consumer_offsets`."""
    reader = MessageReader(raw)
    if example.kind == "offset-commit-key":
        kind, group, topic, partition = reader.integer(2), reader.text(), reader.text(), reader.integer(4)
        return {"kind": str(kind), "group": group, "topic": topic, "partition": str(partition)}
    values = {"version": reader.integer(2), "offset": reader.integer(8), "leader_epoch": reader.integer(4)}
    reader.flexible = True
    metadata, commit_timestamp = reader.text(), reader.integer(8)
    tags, tag, size = reader.unsigned_varint(), reader.unsigned_varint(), reader.unsigned_varint()
    assert (values["version"], tags, size) == (4, 1, 16)
    named = {name: str(value) for name, value in values.items()}
    named |= {"metadata": metadata, "commit_timestamp_ms": str(commit_timestamp)}
    return named | {f"tag {tag}": str(reader.uuid())}


def decode(example: Example, raw: bytes) -> dict[str, str]:
    """What the bytes of an example say, by field."""
    if example.kind.startswith("offset-commit-"):
        return offset_commit_values(example, raw)
    if example.kind == "message":
        return message_values(decode_message(raw)[0])
    if example.kind == "text":
        return {}
    if example.kind == "message-id":
        (offset,) = struct.unpack(">q", raw[-8:])
        host = Host.unpack(memoryview(raw[:-8]))
        return {"store_host": str(host), "physical_offset": str(offset), "message id": raw.hex().upper()}
    if example.kind == "unique-key":
        pid, loader, millis, counter = UNIQUE_KEY_TAIL.unpack(raw[-UNIQUE_KEY_TAIL.size :])
        address = Host.unpack(memoryview(raw[: -UNIQUE_KEY_TAIL.size] + bytes(4)))
        named = {"address": str(address).removesuffix(":0"), "process": pid, "class_loader_hash": f"{loader:08x}"}
        return {name: str(value) for name, value in {**named, "milliseconds": millis, "counter": counter}.items()}
    found = LAYOUTS[example.kind]
    values = zip(found.fields, found.struct.unpack(raw), strict=True)
    is_hex = example.kind in ("message-head", "blank")
    return {field.name: f"{value:08x}" if is_hex and field.name == "magic" else str(value) for field, value in values}


def test_every_layout_has_one_table() -> None:
    assert sorted(name for _, name, _ in marks("layout")) == sorted(LAYOUTS)


@pytest.mark.parametrize("name", sorted(LAYOUTS))
def test_table_equals_layout(name: str) -> None:
    (text,) = (text for _, marked, text in marks("layout") if marked == name)
    documented = [(place, field, type_) for place, field, type_, _ in table(text)]
    stated = [(f"{f.offset}-{f.offset + f.size_bytes - 1}", f.name, TYPES[f.format]) for f in LAYOUTS[name].fields]
    assert documented == stated


@pytest.mark.parametrize(("page", "mark", "text"), marks("example"), ids=lambda value: getattr(value, "name", ""))
def test_example_is_what_the_store_holds(
    page: Path, mark: str, text: str, golden_store: GoldenStore, golden_log: GoldenLog
) -> None:
    example = Example.parse(mark)
    raw = example_bytes(example, golden_store, golden_log)
    assert block(text) == hex_dump(raw), f"{page.name}: {mark}"
    values = decode(example, raw)
    if values:
        stated = {row[0]: row[1] for row in table(text[text.index("\n```\n") :])}
        assert stated == values, f"{page.name}: {mark}"


@pytest.mark.parametrize("mark", [mark for _, mark, _ in marks("example") if "as=message-id" in mark])
def test_message_id_is_the_engines(mark: str, golden_store: GoldenStore) -> None:
    example = Example.parse(mark)
    raw = example_bytes(example, golden_store)
    offset = int.from_bytes(raw[-8:], "big")
    (stated,) = (m for m in golden.manifest(example.store)["messages"] if m["physicalOffset"] == offset)
    assert raw.hex().upper() == stated["msgId"]


@pytest.mark.parametrize(("mark", "text"), [(mark, text) for _, mark, text in marks("file")])
def test_quoted_file_is_the_stores(mark: str, text: str, golden_store: GoldenStore, golden_log: GoldenLog) -> None:
    given = dict(part.split("=", 1) for part in mark.split())
    root = golden_log(given["log"]) if "log" in given else golden_store(given["store"])
    assert block(text) == (root / given["file"]).read_text("utf-8").removesuffix("\n")


@pytest.mark.parametrize(("mark", "text"), [(mark, text) for _, mark, text in marks("files")])
def test_listed_files_are_the_stores(mark: str, text: str, golden_store: GoldenStore) -> None:
    root = golden_store(mark.removeprefix("store="))
    files = {path.relative_to(root).as_posix(): path.stat().st_size for path in root.rglob("*") if path.is_file()}
    listed = dict(line.split() for line in block(text).splitlines())
    assert {name: int(size) for name, size in listed.items()} == files


@pytest.mark.parametrize(("mark", "text"), [(mark, text) for _, mark, text in marks("hashes")])
def test_stated_hashes(mark: str, text: str) -> None:
    slots = int(mark.removeprefix("slots="))
    for key, code, key_hash, slot in table(text):
        raw = key.encode("utf-8")
        assert (int(code), int(key_hash)) == (java_hash(raw), index_key_hash(raw)), key
        assert int(slot) == index_key_hash(raw) % slots, key


@pytest.mark.parametrize(("mark", "text"), [(mark, text) for _, mark, text in marks("committed")])
def test_stated_commits(mark: str, text: str, golden_log: GoldenLog) -> None:
    found = KafkaLogDir(str(golden_log(mark.removeprefix("log=")))).consumer_offsets()
    rows = [
        (group, where.topic, str(where.partition), str(commit.offset), commit.metadata)
        for (group, where), commit in found.offsets.items()
    ]
    assert table(text) == sorted(rows)
    assert found.problems == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_page_has_the_parts_that_every_page_has(page: Path) -> None:
    text = page.read_text("utf-8")
    if page.name == "README.md":
        for other in PAGES:
            assert other == page or f"]({other.name})" in text, f"README.md does not link {other.name}"
        return
    for part in (
        "## Grammar",
        "## Bytes",
        "## Rules",
        "MUST",
        "## Example",
        "## Unguarded bytes",
        "## Versions",
        "> Why?",
    ):
        assert part in text, f"{page.name} has no {part}"


def test_pages_that_the_code_names_are_there() -> None:
    sources = "".join(path.read_text("utf-8") for path in (ROOT / "src").rglob("*.py"))
    named = set(re.findall(r"docs/[\w/-]+\.md", sources))
    assert named
    assert [name for name in sorted(named) if not (ROOT / name).is_file()] == []


def test_links_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text("utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
