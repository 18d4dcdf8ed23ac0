"""How far a dispatch has come: the file ``.logdex-dispatch`` in its output.

It is written after what it vouches for is on disk, and replaced as a whole.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from logdex import limits
from logdex.errors import CorruptError
from logdex.io.atomic_file import write_atomically
from logdex.io.env import Env

JOURNAL_NAME = ".logdex-dispatch"
_VERSION = 2
_HINT = "remove the output, and run it again"


@dataclass(frozen=True, slots=True)
class DispatchJournal:
    """The entries of all messages before the physical offset `position` are on disk. The last of
    them is at the offset `last`, -1 if there is none, and the CRC-32 of all its bytes is
    `last_crc`: a log that has another message there is not the one that was dispatched. `index_ms`
    is the end time of the newest IndexFile that is full. `is_clean` states that the files have
    nothing else. `left_out` are the deleted topics of which queues were left out. With the position
    -1 the files are of no use.
    """

    position: int
    last: int = -1
    last_crc: int = 0
    index_ms: int = 0
    is_clean: bool = False
    left_out: tuple[str, ...] = ()

    @staticmethod
    def read(directory: str, env: Env) -> DispatchJournal | None:
        """Returns the journal of an output, None if there is none. That of another version says
        nothing of the files. Raises `CorruptError` if it is malformed."""
        path = f"{directory}/{JOURNAL_NAME}"
        if not env.exists(path):
            return None
        text = env.read_file(path, limits.CONFIG_FILE_SIZE_BYTES_MAX)
        try:
            return _parse(json.loads(text))
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise CorruptError(f"no journal of a dispatch: {error}", path=path, position=0, hint=_HINT) from error

    def write(self, directory: str, env: Env) -> None:
        """Replaces the journal of an output, durably."""
        text = json.dumps({"version": _VERSION, **asdict(self)})
        write_atomically(f"{directory}/{JOURNAL_NAME}", text.encode(), env=env)


def _parse(given: Any) -> DispatchJournal:
    if given["version"] != _VERSION:
        return DispatchJournal(-1)
    numbers = {name: given[name] for name in ("position", "last", "last_crc", "index_ms")}
    if not all(isinstance(number, int) and number >= -1 for number in numbers.values()):
        raise ValueError("a number that cannot be")
    return DispatchJournal(**numbers, is_clean=bool(given["is_clean"]), left_out=tuple(map(str, given["left_out"])))
