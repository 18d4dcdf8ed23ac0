"""Writes the CommitLog files of the new log: messages with their bytes, placeholders and
fillers."""

from __future__ import annotations

from logdex.errors import UnreadableError
from logdex.io.env import Env
from logdex.io.output_files import OutputFiles
from logdex.layout.rocketmq import BLANK, BLANK_MAGIC, FILE_NAME_DIGITS
from logdex.rocketmq.files.store_files import COMMIT_LOG_DIR
from logdex.rocketmq.recover.place import Fill, NewFile
from logdex.rocketmq.recover.placeholder import placeholder_parts, placeholder_sizes
from logdex.rocketmq.recover.whole_pieces import OnRead, Piece

_COPY_BYTES = 8 << 20


def write_file(file: NewFile, directory: str, file_size_bytes: int, *, sync: bool, env: Env, on_read: OnRead) -> None:
    """Writes a file of ``directory/commitlog``. All bytes that are no message, no placeholder and
    no filler are zeros that take no space on disk."""
    with OutputFiles(env, sync=sync) as output:
        _FileWriter(written_path(file, directory), file_size_bytes, output, env).write(file, on_read)


def written_path(file: NewFile, directory: str) -> str:
    """Returns the path of a file of ``directory/commitlog``."""
    return f"{directory}/{COMMIT_LOG_DIR}/{file.scanned.start_offset:0{FILE_NAME_DIGITS}d}"


class _FileWriter:
    """Writes one file at `path`."""

    def __init__(self, path: str, size_bytes: int, output: OutputFiles, env: Env) -> None:
        self._path = path
        self._size = size_bytes
        self._output = output
        self._env = env

    def write(self, file: NewFile, on_read: OnRead) -> None:
        self._put(0, b"")  # a file without messages
        for piece in file.pieces:
            assert file.scanned.source is not None  # it has pieces
            self._copy(file.scanned.source.path, piece, on_read)
        for fill in file.fills:
            self._fill(fill, file.scanned.start_offset)
        if file.filler_at is not None:
            self._put(file.filler_at, BLANK.pack(self._size - file.filler_at, BLANK_MAGIC))

    def _copy(self, path: str, piece: Piece, on_read: OnRead) -> None:
        with self._env.open_read(path) as source:
            for at in range(piece.start, piece.end, _COPY_BYTES):
                wanted = min(_COPY_BYTES, piece.end - at)
                data = source.read_at(at, wanted)
                if len(data) < wanted:
                    end = at + len(data)
                    raise UnreadableError(path=path, position=end, end_position=piece.end, size_bytes=end)
                self._put(at, data)
                on_read(0, len(data))

    def _fill(self, fill: Fill, start_offset: int) -> None:
        at = fill.start
        for size in placeholder_sizes(fill.end - fill.start):
            before, behind = placeholder_parts(start_offset + at, size, fill.store_timestamp_ms)
            self._put(at, before)
            self._put(at + size - len(behind), behind)
            at += size

    def _put(self, position: int, data: bytes) -> None:
        self._output.write_at(self._path, self._size, position, data)
