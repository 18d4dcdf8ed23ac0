"""Messages whose bodies hold CommitLog bytes that name their own place, and logs made of such
messages.

An `Embedding` fills a body. It is told where the body lies, so that whatever it puts there has the
physical offset that a real message at that place would have.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from logdex.layout.rocketmq import BLANK, BLANK_MAGIC, MESSAGE_MAGIC_V1, MESSAGE_MAGIC_V2
from logdex.primitives.crc import body_crc
from logdex.rocketmq.message.stored_message import StoredMessage, encode_message
from logdex.rocketmq.rebuild.local import rebuild
from logdex.rocketmq.settings.store_config import StoreConfig
from logdex.testing.store_builder import make_message

FILE_SIZE = 8192
CONFIG = StoreConfig(
    mapped_file_size_commit_log=FILE_SIZE, mapped_file_size_consume_queue=20 * 16, max_hash_slot_num=7, max_index_num=12
)
HEAD_SIZE = 88
"""From a message's start to its body, both hosts IPv4."""
BODY_SIZE = 900
PLAIN_SIZE = 300
"""Body sizes of the messages that hold something and of those that do not."""


@dataclass(frozen=True)
class Place:
    """Where a body lies: physical offsets of its message, of the body, of the message's end, of the
    next messages' starts, of the file's end; `tail` is what stands behind the body in its
    message."""

    start: int
    body: int
    end: int
    following: tuple[int, ...]
    file_end: int
    tail: bytes


Embedding = Callable[[Place], bytes]


def inner(at: int, body: bytes = b"not of this log") -> bytes:
    """A whole message that says that it lies at `at`."""
    message = make_message(b"Inner", queue_offset=7, body=body, properties=[(b"KEYS", b"inner")])
    return encode_message(replace(message, physical_offset=at))


def nothing(place: Place) -> bytes:
    return b"n" * BODY_SIZE


def one(place: Place) -> bytes:
    return (b"seven b" + inner(place.body + 7)).ljust(BODY_SIZE, b"-")


def behind_three(place: Place) -> bytes:
    """Where the next message would begin if a head of zeros were that of a message without a
    body."""
    return (bytes(3) + inner(place.body + 3)).ljust(BODY_SIZE, b"-")


def zeros_behind(place: Place) -> bytes:
    return (b"seven b" + inner(place.body + 7)).ljust(BODY_SIZE, b"\0")


def row(place: Place) -> bytes:
    made = b""
    while len(made) + 200 < BODY_SIZE:
        made += inner(place.body + len(made))
    return made.ljust(BODY_SIZE, b"-")


def row_with_filler(place: Place) -> bytes:
    made = inner(place.body) + inner(place.body + len(inner(0)))
    made += BLANK.pack(place.file_end - place.body - len(made), BLANK_MAGIC)
    return made.ljust(BODY_SIZE, b"-")


def filler(place: Place) -> bytes:
    return (b"x" + BLANK.pack(place.file_end - place.body - 1, BLANK_MAGIC)).ljust(BODY_SIZE, b"-")


def spanning(place: Place) -> bytes:
    """Two inner messages, the second of which has properties up to where the message after the next
    one begins."""
    return _reaching(place, place.following[1] if len(place.following) > 1 else place.end + 50)


def overreaching(place: Place) -> bytes:
    return _reaching(place, place.end + 40)


def _reaching(place: Place, end: int) -> bytes:
    first = inner(place.body)
    at = place.body + len(first)
    size = end - at
    message = make_message(b"Inner", body=b"")
    bare = encode_message(replace(message, physical_offset=at))
    made = size.to_bytes(4, "big") + bare[4:-2] + (size - len(bare)).to_bytes(2, "big")
    return (first + made).ljust(BODY_SIZE, b"-")


def ending_with_it(place: Place) -> bytes:
    """An inner message whose topic and properties are those of the message that holds it, so that
    both end together."""
    before = 300
    at = place.body + before
    rest = b"r" * (BODY_SIZE - before - HEAD_SIZE)
    message = make_message(b"Inner", body=rest)
    head = encode_message(replace(message, physical_offset=at, body_crc=body_crc(rest)))[:HEAD_SIZE]
    size = place.end - at
    assert size == HEAD_SIZE + len(rest) + len(place.tail)
    return b"b" * before + size.to_bytes(4, "big") + head[4:] + rest


def wherever_a_flip_leads(place: Place) -> bytes:
    """Inner messages where a flipped size would have the next message begin."""
    made = bytearray(b"-" * BODY_SIZE)
    size, taken = place.end - place.start, 0
    for bit in (1 << place for place in range(12)):
        at = place.start + (size ^ bit) - place.body
        piece = inner(place.body + at)
        if taken <= at <= BODY_SIZE - len(piece):
            made[at : at + len(piece)] = piece
            taken = at + len(piece)
    return bytes(made)


def same_checksum(place: Place) -> bytes:
    """A body whose checksum is also that of its bytes before one place; a body length with one
    flipped bit leads there, and there stands what looks like the rest of a message, and a message
    behind it."""
    before = BODY_SIZE ^ 0x100
    made = b"b" * before + bytes(3) + inner(place.body + before + 3)
    made = made.ljust(BODY_SIZE - 4, b"-")
    return made + _four_bytes_for(made, zlib.crc32(made[:before]))


def _four_bytes_for(data: bytes, crc: int) -> bytes:
    """Four bytes that, put behind `data`, give it a CRC-32."""
    tops = {entry >> 24: n for n, entry in enumerate(_table())}
    register, path = crc ^ 0xFFFFFFFF, []
    for _ in range(4):
        n = tops[register >> 24]
        path.append(n)
        register = ((register ^ _table()[n]) << 8) & 0xFFFFFFFF
    have, made = zlib.crc32(data) ^ 0xFFFFFFFF, bytearray()
    for n in reversed(path):
        made.append(n ^ (have & 0xFF))
        have = (have >> 8) ^ _table()[n]
    assert zlib.crc32(data + made) == crc
    return bytes(made)


def _table() -> list[int]:
    table = []
    for n in range(256):
        for _ in range(8):
            n = (n >> 1) ^ 0xEDB88320 if n & 1 else n >> 1
        table.append(n)
    return table


EMBEDDINGS: list[Embedding] = [
    nothing,
    one,
    behind_three,
    zeros_behind,
    row,
    row_with_filler,
    filler,
    spanning,
    overreaching,
    ending_with_it,
    wherever_a_flip_leads,
    same_checksum,
]


@dataclass(frozen=True)
class Log:
    """A log on disk: the physical offsets and sizes of its messages, and which of them hold an
    embedding."""

    root: Path
    offsets: list[int]
    sizes: list[int]
    holders: list[int]

    def path_of(self, offset: int) -> tuple[Path, int]:
        """The file of a physical offset, and the byte in it."""
        start = offset // FILE_SIZE * FILE_SIZE
        return self.root / "commitlog" / f"{start:020d}", offset - start

    def change(self, offset: int, data: bytes) -> None:
        """Puts bytes at a physical offset."""
        path, at = self.path_of(offset)
        old = path.read_bytes()
        path.write_bytes(old[:at] + data + old[at + len(data) :])

    def byte(self, offset: int) -> int:
        """The byte at a physical offset."""
        path, at = self.path_of(offset)
        return path.read_bytes()[at]


def build_log(root: Path, embedding: Embedding, *, wide: bool = False) -> Log:
    """Two files: the first, a middle and the last message of each hold the embedding, the others
    nothing."""
    plan = [True, False, False, True, False, False, True] * 2
    magic = MESSAGE_MAGIC_V2 if wide else MESSAGE_MAGIC_V1
    made = [
        replace(
            make_message(
                b"TopicA",
                queue_offset=number,
                body=bytes(BODY_SIZE if holds else PLAIN_SIZE),
                properties=[(b"KEYS", b"key-%d" % (number + 10)), (b"TAGS", b"TagA")],
            ),
            magic=magic,
        )
        for number, holds in enumerate(plan)
    ]
    sizes = [len(encode_message(message)) for message in made]
    offsets, at = [], 0
    for number, size in enumerate(sizes):
        if number == len(plan) // 2:
            at = FILE_SIZE
        offsets.append(at)
        at += size
    files = {0: b"", FILE_SIZE: b""}
    for number, message in enumerate(made):
        start = offsets[number]
        first = start // FILE_SIZE * FILE_SIZE
        body_at, length = start + HEAD_SIZE, len(message.body)
        tail = encode_message(message)[HEAD_SIZE + length :]
        following = tuple(offset for offset in offsets if start < offset < first + FILE_SIZE)
        place = Place(start, body_at, start + sizes[number], following, first + FILE_SIZE, tail)
        body = embedding(place) if plan[number] else b"p" * PLAIN_SIZE
        assert len(body) == length
        files[first] += encode_message(_with_body(message, body, start))
    filled = files[0] + BLANK.pack(FILE_SIZE - len(files[0]), BLANK_MAGIC)
    (root / "commitlog").mkdir(parents=True)
    (root / "commitlog" / f"{0:020d}").write_bytes(filled.ljust(FILE_SIZE, b"\0"))
    (root / "commitlog" / f"{FILE_SIZE:020d}").write_bytes(files[FILE_SIZE].ljust(FILE_SIZE, b"\0"))
    rebuild(str(root), str(root), CONFIG, in_place=True, sync=False)
    return Log(root, offsets, sizes, [number for number, holds in enumerate(plan) if holds])


def _with_body(message: StoredMessage, body: bytes, at: int) -> StoredMessage:
    return replace(message, body=body, body_crc=body_crc(body), physical_offset=at)
