"""Resolves a store's sizes and version from flags, the broker's properties file, and the files.

Source: ``docs/formats/store-directory.md``; MessageStoreConfig.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Unpack

from logdex.errors import (
    CorruptError,
    GeometryError,
    LogdexError,
    MissingFileError,
    NotAStoreError,
    StorageError,
    UsageError,
)
from logdex.io.env import DEFAULT_ENV, Env
from logdex.io.path_look import path_text
from logdex.jobs.settings import require_known
from logdex.rocketmq.commit_log.commit_log import CommitLog
from logdex.rocketmq.consume_queue.consume_queue import ENTRY_SIZE_BYTES, discover_queues
from logdex.rocketmq.files.offset_files import OffsetFile, infer_file_size, list_offset_files
from logdex.rocketmq.files.store_files import StorePaths
from logdex.rocketmq.geometry.delay_levels import infer_delay_levels
from logdex.rocketmq.geometry.dialect_evidence import contradictions, infer_dialect
from logdex.rocketmq.geometry.index_geometry import (
    IndexGeometry,
    infer_index_geometry,
    pair_of_size,
    require_content,
    sizes_of,
)
from logdex.rocketmq.geometry.set_aside import sizes_set_aside
from logdex.rocketmq.index_file.index_paths import is_unfilled, list_index_files
from logdex.rocketmq.recognise.layout_check import require_supported_conf
from logdex.rocketmq.settings.broker_conf import BrokerConf
from logdex.rocketmq.settings.dialect import Dialect
from logdex.rocketmq.settings.store_config import (
    DEFAULT_DELAY_LEVELS,
    StoreConfig,
    parse_delay_levels,
    require_possible_size,
    shown_log_size,
)
from logdex.rocketmq.settings.store_settings import StoreSettings

_QUEUES_READ = 16
_FIELDS = {
    "mappedFileSizeCommitLog": "mapped_file_size_commit_log",
    "mappedFileSizeConsumeQueue": "mapped_file_size_consume_queue",
    "maxHashSlotNum": "max_hash_slot_num",
    "maxIndexNum": "max_index_num",
}


def resolve_config(
    root: str, *, env: Env = DEFAULT_ENV, need_index: bool = True, **given: Unpack[StoreSettings]
) -> StoreConfig:
    """Returns the configuration of the store at `root`.

    For each value, arguments come first, then the properties file at `broker_conf`, then what the
    files show, then the broker's default. The result's `evidence` states the source of each value,
    `assumed` lists guesses.

    Raises `GeometryError` if the IndexFiles fit several geometries or none, or contradict what is
    given (with `need_index` False what the files show is used instead, else the defaults),
    `UsageError` for values out of range, for sizes that the other files contradict and for an
    unknown setting, and `UnsupportedLayoutError` for an unsupported layout in the properties.
    """
    require_known(given, StoreSettings)
    conf_path, rocketmq_version = given.get("broker_conf"), given.get("rocketmq_version")
    conf = BrokerConf(path="") if conf_path is None else BrokerConf.read(path_text(conf_path), env=env)
    require_supported_conf(conf, root)
    said = _Said(conf)
    log_size = said.given("mappedFileSizeCommitLog", given.get("mapped_file_size_commit_log"))
    set_aside = sizes_set_aside(root, env)
    queue_size = said.given("mappedFileSizeConsumeQueue", given.get("mapped_file_size_consume_queue"), set_aside)
    slots = said.given("maxHashSlotNum", given.get("max_hash_slot_num"), set_aside)
    entries = said.given("maxIndexNum", given.get("max_index_num"), set_aside)
    directories = _commit_log_directories(root, said, env)
    with contextlib.ExitStack() as opened:
        log = _open_log(root, log_size, directories, env)
        if log is not None:
            opened.callback(log.close)
        if log is not None and log_size is not None and not log.is_one_file:
            _require_agreement("mappedFileSizeCommitLog", log_size, log.files, log.directory)
        if log_size is None and log is not None:
            log_size = log.file_size_bytes
            said.evidence.append(shown_log_size(log_size))
        queue_size = _resolve_queue_size(root, queue_size, said, env)
        index_paths, geometry, reason = _look_at_index(root, slots, entries, need_index, env)
        said.evidence += reason
        said.guesses_sizes |= None in (slots, entries) and all(is_unfilled(path, env) for path in index_paths)
        if not index_paths and None in (slots, entries):
            pair = f"maxHashSlotNum {geometry.max_hash_slot_num} and maxIndexNum {geometry.max_index_num}"
            said.assumed.append(f"{pair}: no IndexFile shows them (--max-hash-slot-num, --max-index-num)")
        if rocketmq_version is not None:
            dialect = Dialect.of(rocketmq_version)
            said.evidence.append(f"version: {rocketmq_version}, as given")
            for text in contradictions(dialect, index_paths, geometry, log, env=env):
                said.contradicted.append(f"rocketmq-version {rocketmq_version}: {text}")
        else:
            dialect, reasons, guesses = infer_dialect(root, index_paths, geometry, log, env=env)
            said.evidence += reasons
            said.assumed += guesses
        levels, levels_shown = _resolve_delays(root, given.get("message_delay_level"), said, log, queue_size, env)
        return StoreConfig(
            mapped_file_size_commit_log=_first(log_size, StoreConfig().mapped_file_size_commit_log),
            mapped_file_size_consume_queue=queue_size,
            max_hash_slot_num=geometry.max_hash_slot_num,
            max_index_num=geometry.max_index_num,
            dialect=dialect,
            delay_levels_ms=levels,
            delay_levels_shown=levels_shown,
            store_path_commit_log=next(iter(directories), None),
            more_store_paths_commit_log=directories[1:],
            evidence=tuple(said.evidence),
            contradicted=tuple(said.contradicted),
            has_guessed_sizes=said.guesses_sizes,
            assumed=(*said.assumed, *(f"{text}, which contradicts it" for text in said.contradicted)),
        )


def contradiction(config: StoreConfig) -> UsageError | None:
    """Returns the error for what the caller stated and the files contradict, None without any."""
    if not config.contradicted:
        return None
    return UsageError(
        f"the files contradict what is stated: {'; '.join(config.contradicted)}",
        hint="leave it out to have it inferred from the files",
    )


def is_upgrade(root: str, *, env: Env = DEFAULT_ENV, **given: Unpack[StoreSettings]) -> bool:
    """Whether the stated version is newer than the one that the files show. A store that is written
    goes on with the rules of the stated one then, as under a broker that was upgraded."""
    stated, given["rocketmq_version"] = given.get("rocketmq_version"), None
    shown = resolve_config(root, env=env, **given).dialect
    return stated is not None and Dialect.of(stated).number > shown.number


def resolve_in_any_case(
    root: str, *, env: Env = DEFAULT_ENV, **given: Unpack[StoreSettings]
) -> tuple[StoreConfig, GeometryError | None]:
    """Returns the configuration for readers that can do without the IndexFiles.

    If the IndexFiles fit several geometries or none, or contradict what is given, the geometry is
    what the files show, else the default one, and the error is returned too.
    """
    try:
        return resolve_config(root, env=env, **given), None
    except GeometryError as error:
        return resolve_config(root, env=env, need_index=False, **given), error


@dataclass(slots=True)
class _Said:
    """Collects the sources of the values, line by line."""

    conf: BrokerConf
    evidence: list[str] = field(default_factory=list)
    assumed: list[str] = field(default_factory=list)
    contradicted: list[str] = field(default_factory=list)
    guesses_sizes: bool = False
    """Whether sizes are guesses because no file shows them yet."""

    def given(self, name: str, flag: int | None, set_aside: Mapping[str, int] = {}) -> int | None:
        """The flag's value, else the properties file's, else that of files which are set aside,
        else None. `name` is the broker's."""
        value = self.conf.sizes.get(name) if flag is None else flag
        if value is not None:
            require_possible_size(_FIELDS[name], value, name)
        if flag is not None:
            self.evidence.append(f"{name}: {flag}, as given")
            return flag
        if value is not None:
            self.evidence.append(f"{name}: {value}, from {self.conf.path}")
        elif name in set_aside:
            value = set_aside[name]
            self.evidence.append(f"{name}: {value}, as the rebuild that was killed here had it")
        return value


def _resolve_delays(
    root: str, flag: str | None, said: _Said, log: CommitLog | None, queue_size: int, env: Env
) -> tuple[tuple[int, ...], tuple[int, ...] | None]:
    """The delay levels, and those that the store shows if they were not stated."""
    if flag is not None:
        said.evidence.append(f"messageDelayLevel: {flag}, as given")
        return parse_delay_levels(flag), None
    if said.conf.message_delay_level:
        said.evidence.append(f"messageDelayLevel: {said.conf.message_delay_level}, from {said.conf.path}")
        return parse_delay_levels(said.conf.message_delay_level), None
    if log is None:
        return parse_delay_levels(DEFAULT_DELAY_LEVELS), ()
    found = infer_delay_levels(root, log, queue_size, env=env)
    if found.shown:
        said.evidence.append(found.evidence)
    return found


def _first(value: int | None, default: int) -> int:
    return default if value is None else value


def index_file_paths(root: str, env: Env) -> list[str]:
    """The IndexFiles of a store that are not empty, ordered by name."""
    return list_index_files(StorePaths(root).index, env)


def _commit_log_directories(root: str, said: _Said, env: Env) -> tuple[str, ...]:
    """The CommitLog's directories by storePathCommitLog and readOnlyCommitLogStorePaths; empty for
    ``commitlog/`` in the store. Those that are not there are noted: a broker makes one with its
    first file.

    A path below storePathRootDir is taken below `root` first, because a copied store lies elsewhere
    than the broker's.
    """
    if env.is_file(root):
        return ()
    conf, own = said.conf, StorePaths(root).commit_log
    read_only = conf.properties.get("readOnlyCommitLogStorePaths", "") if conf.store_path_commit_log else ""
    stated = [part.strip().rstrip("/") for part in f"{conf.store_path_commit_log or ''},{read_only}".split(",")]
    stated = list(dict.fromkeys(part for part in stated if part))
    found = {part: place for part in stated if (place := _place_of(part, root, conf, env)) is not None}
    missing = [part for part in stated if part not in found]
    if missing and not found and not env.is_dir(own):
        hint = "mount it there, or correct the path in the properties file"
        raise MissingFileError(
            f"no such directory, which {conf.path} names in storePathCommitLog", path=missing[0], hint=hint
        )
    if missing and not found:
        said.evidence.append(f"storePathCommitLog: {own}, since {missing[0]} is not there")
        return ()
    if found:
        said.evidence.append(f"storePathCommitLog: {', '.join(found.values())}, from {conf.path}")
    said.assumed += [f"{part}, of storePathCommitLog, is not there: no broker has written to it" for part in missing]
    directories = tuple(dict.fromkeys(found.values()))
    return () if directories == (own,) else directories


def _place_of(stated: str, root: str, conf: BrokerConf, env: Env) -> str | None:
    """Where a directory of the broker's is, None if it is not there."""
    broker_root = conf.properties.get("storePathRootDir", "").strip().rstrip("/")
    places = [stated]
    if broker_root and stated.startswith(f"{broker_root}/"):
        places.insert(0, root + stated[len(broker_root) :])
    return next((place for place in places if env.is_dir(place)), None)


def _open_log(root: str, file_size: int | None, directories: tuple[str, ...], env: Env) -> CommitLog | None:
    """The CommitLog, or None for a store without one, which its users report."""
    try:
        return CommitLog.of_store(root, file_size_bytes=file_size, directories=directories, env=env)
    except (MissingFileError, NotAStoreError):
        return None


def _require_agreement(name: str, stated: int, files: Sequence[OffsetFile], path: str) -> None:
    """Raises `UsageError` if the files of a directory show another size than the stated one: all
    but the last have that size, and none of them can have been truncated to it."""
    lengths = {file.size_bytes for file in files[:-1]} or {files[-1].size_bytes}
    shown = max(lengths)
    if len(lengths) > 1 or shown == stated or files[-1].size_bytes > shown:
        return
    gaps = [after.start_offset - before.start_offset for before, after in pairwise(files)]
    if shown < stated and all(gap % stated == 0 for gap in gaps):
        return
    raise UsageError(
        f"{path}: {name} {stated} is stated, but the files have {shown} bytes",
        hint="leave it out to have it inferred from the files",
    )


def _resolve_queue_size(root: str, stated: int | None, said: _Said, env: Env) -> int:
    """The stated size of the ConsumeQueue files, else the commonest size of the first few
    ConsumeQueues that have files, else the default."""
    sizes: Counter[int] = Counter()
    for _, _, directory in discover_queues(root, env=env):
        try:
            files = list_offset_files(env, directory).files
        except StorageError:
            continue  # verify reports it, and other queues tell the size
        if stated is not None and len(files) > 1:
            _require_agreement("mappedFileSizeConsumeQueue", _whole_entries(stated), files, directory)
        size = infer_file_size(files, unit_bytes=ENTRY_SIZE_BYTES)
        if size is not None:
            sizes[size] += 1
        if sizes.total() == _QUEUES_READ:
            break
    if stated is not None:
        return stated
    if sizes:
        commonest = max(sizes, key=lambda size: (sizes[size], size))  # files get truncated, but they do not grow
        said.evidence.append(f"mappedFileSizeConsumeQueue: {commonest}, as the files are")
        return commonest
    said.guesses_sizes = True
    usual = StoreConfig().mapped_file_size_consume_queue
    name = f"mappedFileSizeConsumeQueue {usual}"
    said.assumed.append(f"{name}: no ConsumeQueue shows it (--mapped-file-size-consume-queue)")
    return usual


def _whole_entries(size_bytes: int) -> int:
    """A size as the broker rounds it: up to whole entries."""
    return -(-size_bytes // ENTRY_SIZE_BYTES) * ENTRY_SIZE_BYTES


def _look_at_index(
    root: str, slots: int | None, entries: int | None, need_index: bool, env: Env
) -> tuple[list[str], IndexGeometry, list[str]]:
    """The IndexFiles with their geometry: none where all are removed before they show it."""
    paths = index_file_paths(root, env)
    try:
        return paths, *_resolve_index(paths, slots, entries, need_index, env)
    except GeometryError:
        if sizes_of(paths, env):
            raise
    return [], *_resolve_index([], slots, entries, need_index, env)


def _resolve_index(
    index_paths: list[str], slots: int | None, entries: int | None, need_index: bool, env: Env
) -> tuple[IndexGeometry, list[str]]:
    """The IndexFiles' geometry from the arguments and the files."""
    defaults = StoreConfig()
    default = IndexGeometry(_first(slots, defaults.max_hash_slot_num), _first(entries, defaults.max_index_num))
    index_paths = [path for path in index_paths if not is_unfilled(path, env)]
    if not index_paths:
        return default, []
    if slots is None and entries is None:
        try:
            geometry, reason = infer_index_geometry(env, index_paths)
        except (GeometryError, CorruptError) as error:
            if need_index:
                raise
            return default, [_falls_back(error)]
        return geometry, [reason]
    try:
        return _stated_index(index_paths, slots, entries, env)
    except GeometryError as unfit:
        if need_index:
            raise
        return _shown_index(index_paths, unfit, env)


def _stated_index(
    index_paths: list[str], slots: int | None, entries: int | None, env: Env
) -> tuple[IndexGeometry, list[str]]:
    """The stated geometry, of which one number may follow from the size of the IndexFiles. Raises
    `GeometryError` if their size or content contradicts it."""
    sizes = {size: path for path, size in sizes_of(index_paths, env).items()}
    if slots is not None and entries is not None:
        stated, reasons = IndexGeometry(slots, entries), []
        if sizes and stated.file_size_bytes not in sizes:
            size, path = max(sizes.items())
            if size < stated.file_size_bytes and not _show_sizes(index_paths, env):
                return stated, []  # they were cut
            text = f"no IndexFile of {size} bytes has maxHashSlotNum {slots} and maxIndexNum {entries}"
            raise GeometryError(text, path=path, hint="leave them out to have them inferred")
    else:
        size, path = next(iter(sizes.items()), (0, index_paths[0]))
        pair = pair_of_size(size, slots=slots, entries=entries)
        if pair is None:
            what = f"maxHashSlotNum {slots}" if slots is not None else f"maxIndexNum {entries}"
            hint = "leave it out to have it inferred"
            raise GeometryError(f"no IndexFile of {size} bytes has {what}", path=path, hint=hint)
        stated = pair
        reasons = [f"index: {pair.max_hash_slot_num} slots and {pair.max_index_num} entries by the length of {path}"]
    require_content(env, index_paths, stated)
    return stated, reasons


def _show_sizes(index_paths: list[str], env: Env) -> bool:
    """Whether IndexFiles show their geometry."""
    try:
        infer_index_geometry(env, index_paths)
    except (GeometryError, CorruptError):
        return False
    return True


def _shown_index(index_paths: list[str], unfit: GeometryError, env: Env) -> tuple[IndexGeometry, list[str]]:
    """The geometry that the IndexFiles show instead of a stated one, else the default one."""
    try:
        geometry, reason = infer_index_geometry(env, index_paths)
    except (GeometryError, CorruptError):
        return IndexGeometry(StoreConfig().max_hash_slot_num, StoreConfig().max_index_num), [_falls_back(unfit)]
    return geometry, [reason]


def _falls_back(error: LogdexError) -> str:
    return f"index: the defaults, since {error.message}"
