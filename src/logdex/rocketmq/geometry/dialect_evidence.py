"""Infers the version that wrote a store, which no file states but most files show.

Each observation excludes versions. One that would exclude all remaining versions is ignored, so the
strongest come first. Source: the table of versions in ``docs/formats/store-directory.md``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from logdex.errors import CorruptError, StorageError, StoreError
from logdex.io.env import Env
from logdex.primitives.java_hash import index_key_hash
from logdex.rocketmq.commit_log.commit_log import CommitLog
from logdex.rocketmq.files.checkpoint import StoreCheckpoint
from logdex.rocketmq.files.store_files import StoreFiles, StorePaths
from logdex.rocketmq.geometry.index_geometry import IndexGeometry, read_header, read_rows
from logdex.rocketmq.message.properties import PROPERTY_SEPARATOR
from logdex.rocketmq.settings.dialect import DEFAULT_VERSION, Dialect

_ENTRIES_READ = 256
_MESSAGES_READ = 8


ERAS = tuple(map(Dialect.of, ("4.7.0", "4.9.0", "4.9.8", "5.1.4", "5.3.3", "5.4.0", DEFAULT_VERSION)))
"""The last version of each era. The stores of an era's versions look alike."""


class Observation(NamedTuple):
    """An observation in words, and the eras that it fits."""

    text: str
    eras: frozenset[Dialect]


def _seen(text: str, eras: Iterable[Dialect]) -> Observation:
    return Observation(text, frozenset(eras))


def infer_dialect(
    root: str, index_paths: list[str], geometry: IndexGeometry, log: CommitLog | None, *, env: Env
) -> tuple[Dialect, list[str], list[str]]:
    """Returns the newest dialect that fits a store, the reasons in words, and its guesses in words.

    Reads a few KiB. Damaged or unreadable files are no evidence and raise no error.
    """
    left = frozenset(ERAS)
    evidence = []
    for observation in _observations(root, index_paths, geometry, log, env):
        fitting = left & observation.eras
        if fitting:
            left = fitting
            evidence.append(f"version: {observation.text}")
        else:
            evidence.append(f"version: {observation.text}, which contradicts what is above and is passed over")
    newest = max(left, key=ERAS.index)
    evidence.append(f"version: taken as {newest.version}" + ("" if evidence else ", the default"))
    return newest, evidence, _undecided(left, newest.version)


def contradictions(
    dialect: Dialect, index_paths: list[str], geometry: IndexGeometry, log: CommitLog | None, *, env: Env
) -> list[str]:
    """Returns what IndexFiles show that a broker with the rules of `dialect` does not write."""
    observations = [*_quietly(_slot_counts(index_paths, geometry, env))]
    if log is not None:
        observations += _quietly(_tags(index_paths, geometry, log, env))
    return [seen.text for seen in observations if all(_rules(era) != _rules(dialect) for era in seen.eras)]


def _rules(dialect: Dialect) -> tuple[bool, bool]:
    """The rules that decide the bytes of an IndexFile."""
    return dialect.slot_count_every_put, dialect.tags_in_index


def _undecided(left: frozenset[Dialect], version: str) -> list[str]:
    """A line if the remaining versions would derive different IndexFiles."""
    dialects = {era.version: era for era in ERAS if era in left}
    if len(set(map(_rules, dialects.values()))) < 2:
        return []
    return [
        f"version {version}: what is there fits {', '.join(dialects)}, whose IndexFiles differ (--rocketmq-version)"
    ]


def _observations(
    root: str, index_paths: list[str], geometry: IndexGeometry, log: CommitLog | None, env: Env
) -> Iterator[Observation]:
    """Yields observations from the strongest to the weakest."""
    yield from _quietly(_slot_counts(index_paths, geometry, env))
    if log is not None:
        yield from _quietly(_tags(index_paths, geometry, log, env))
    yield from _quietly(_small_files(root, env))
    if log is not None:
        yield from _quietly(_separator(log))
    yield from _quietly(_missing_files(root, env))


def _quietly(observations: Iterator[Observation]) -> Iterator[Observation]:
    try:
        yield from observations
    except StoreError:
        pass  # damaged or unreadable: verify reports it, and here it is no evidence


def _slot_counts(paths: list[str], geometry: IndexGeometry, env: Env) -> Iterator[Observation]:
    """Compares hashSlotCount with the number of entries, in the first file in which slots
    repeat."""
    for path in paths:
        try:
            with env.open_read(path) as file:
                header = read_header(file)
                rows = read_rows(file, geometry, 1, min(header.entry_count, _ENTRIES_READ))
        except (CorruptError, StorageError):
            continue  # too short for a header, unreadable or removed: try the next file
        if not (rows["previous_index"] > 0).any():
            continue
        if header.hash_slot_count == header.entry_count:
            text = f"hashSlotCount counts every put in {path}"
            yield _seen(text, (era for era in ERAS if era.slot_count_every_put))
        else:
            text = f"hashSlotCount counts slots in {path}"
            yield _seen(text, (era for era in ERAS if not era.slot_count_every_put))
        return


def _tags(paths: list[str], geometry: IndexGeometry, log: CommitLog, env: Env) -> Iterator[Observation]:
    """Whether tagged messages have an entry for the tag, in the newest file that shows it."""
    votes: list[bool] = []
    for path in reversed(paths):
        try:
            with env.open_read(path) as file:
                count = read_header(file).entry_count
                rows = read_rows(file, geometry, 1, min(count, _ENTRIES_READ))
        except (CorruptError, StorageError):
            continue
        hashes: dict[int, set[int]] = {}
        for key_hash, phy_offset, _, _ in rows.tolist():
            hashes.setdefault(phy_offset, set()).add(key_hash)
        # The first and the last message may have keys in another file, or beyond what was read.
        offsets = sorted(hashes)[1:-1]
        for offset in offsets:
            try:
                message = log.read_message(offset, check_crc=False)
            except StoreError:
                continue
            if message.tags:
                votes.append(index_key_hash(message.topic + b"#T#" + message.tags) in hashes[offset])
            if len(votes) == _MESSAGES_READ:
                break
        if any(votes) or len(votes) >= _MESSAGES_READ:
            break
    if votes:
        has_tags = any(votes)  # no other key has a tag's hash, but a damaged entry may lack it
        text = f"the IndexFile holds {'tags' if has_tags else 'no tags'} in {path}"
        yield _seen(text, (era for era in ERAS if era.tags_in_index == has_tags))


def _small_files(root: str, env: Env) -> Iterator[Observation]:
    """Evidence from abort, rocksdbstore/ and the checkpoint."""
    files = StoreFiles.read(root, env=env)
    if files.abort_text.strip():
        what = "a process id" if files.process_id is not None else "text"
        yield _seen(f"abort holds {what}", (era for era in ERAS if era.abort_has_process_id))
    if files.has_abort_bak:
        yield _seen("there is an abort.bak", (era for era in ERAS if era.abort_has_process_id))
    if files.has_rocksdb_store:
        yield _seen("there is a rocksdbstore", (era for era in ERAS if era.has_rocksdb_store))
    if files.has_abort and not files.abort_text.strip():  # weaker, because a truncated file is empty too
        yield _seen("abort is empty", (era for era in ERAS if not era.abort_has_process_id))
    if files.has_checkpoint:
        checkpoint = StoreCheckpoint.read(StorePaths(root).checkpoint, env=env)
        if checkpoint.logics_physical_offset > 0:
            text = "the checkpoint has logicsPhysicalOffset"
            yield _seen(text, (era for era in ERAS if era.checkpoint_has_logics_offset))
        elif checkpoint.confirm_phy_offset > 0 or checkpoint.master_flushed_offset > 0:
            yield _seen("the checkpoint has the fields of 5.x", (era for era in ERAS if era.abort_has_process_id))


def _separator(log: CommitLog) -> Iterator[Observation]:
    """Whether the first message's properties end with the separator."""
    raw = log.read_message(log.min_offset, check_crc=False).properties_raw
    if raw:
        ends = raw.endswith(PROPERTY_SEPARATOR)
        text = f"properties end {'with' if ends else 'without'} a separator"
        yield _seen(text, (era for era in ERAS if era.separator_at_end == ends))


def _missing_files(root: str, env: Env) -> Iterator[Observation]:
    """Evidence from files that a whole store directory lacks; a copied CommitLog alone shows
    nothing."""
    files = StoreFiles.read(root, env=env)
    if not files.has_lock:
        return
    if not files.has_rocksdb_store:
        yield _seen("there is no rocksdbstore", (era for era in ERAS if not era.has_rocksdb_store))
    if not files.has_abort and not files.has_abort_bak:
        yield _seen("there is neither abort nor abort.bak", (era for era in ERAS if not era.abort_has_process_id))
