"""The journal of the sinks of a directory: which batches were appended, and which one is being
appended.

It is the file ``.logdex-sink`` in the directory, a file and not a folder, because a Kafka broker
takes each folder of its log directory for a partition. It is replaced as a whole and changed only
with the directory's lock held. Staged rows lie beside it, in files whose names begin with its name.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from logdex import limits
from logdex.errors import CorruptError
from logdex.io.atomic_file import write_atomically
from logdex.io.env import Env

JOURNAL_NAME = ".logdex-sink"
_VERSION = 1


@dataclass(frozen=True, slots=True)
class Pending:
    """A batch that is being appended: of a query (empty for a batch write), the names of its staged
    files in order, and where each log that it goes to ended before, by the log's name."""

    query: str
    batch: int
    files: tuple[str, ...]
    ends: dict[str, int]


@dataclass(slots=True)
class SinkJournal:
    """What the journal of one directory says. `committed` has the last batch of each query."""

    committed: dict[str, int] = field(default_factory=dict)
    pending: Pending | None = None

    @staticmethod
    def read(directory: str, env: Env) -> SinkJournal:
        """Returns the journal of a directory; an empty one if there is none. Raises `CorruptError`
        if it is malformed."""
        path = f"{directory}/{JOURNAL_NAME}"
        if not env.exists(path):
            return SinkJournal()
        text = env.read_file(path, limits.CONFIG_FILE_SIZE_BYTES_MAX)
        try:
            return _parse(json.loads(text))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise CorruptError(
                f"no journal of a sink: {error}", path=path, position=0, hint="look at what has put it there"
            ) from error

    def write(self, directory: str, env: Env) -> None:
        """Replaces the journal of a directory, durably."""
        text = json.dumps({"version": _VERSION, **asdict(self)}, indent=1)
        write_atomically(f"{directory}/{JOURNAL_NAME}", text.encode(), env=env)


def _parse(given: Any) -> SinkJournal:
    if given["version"] != _VERSION:
        raise ValueError(f"version {given['version']!r}")
    committed = {str(query): int(batch) for query, batch in given["committed"].items()}
    found = given["pending"]
    if found is None:
        return SinkJournal(committed)
    files = tuple(found["files"])
    if not all(isinstance(name, str) and name.startswith(JOURNAL_NAME) and "/" not in name for name in files):
        raise ValueError("a staged file that cannot be")
    ends = {str(name): int(end) for name, end in found["ends"].items()}
    return SinkJournal(committed, Pending(str(found["query"]), int(found["batch"]), files, ends))
