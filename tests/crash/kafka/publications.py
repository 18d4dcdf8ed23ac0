"""Log directories as crashes leave them, and what `rebuild` and `recover` publish there or
elsewhere."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

from logdex.io.env import Env
from logdex.io.name_changes import STAGING_PREFIX
from logdex.jobs.journal import LOCK_NAME
from logdex.kafka.batch.record import Record
from logdex.kafka.files import file_names as names
from logdex.kafka.log.log import Log
from logdex.kafka.rebuild import rebuild
from logdex.kafka.recover import recover
from logdex.kafka.settings.log_config import LogConfig
from tests.crash.publications import DATED, Publication
from tests.crash.trees import Tree, tree

CONFIG = LogConfig(segment_bytes=500, index_interval_bytes=150)


def write_log_dir(root: Path) -> Path:
    """Three partitions of several segments, with producers and aborted transactions, closed
    cleanly."""
    root.mkdir(parents=True)
    (root / names.META_PROPERTIES).write_text("version=1\ncluster.id=c\nnode.id=1\n")
    for number, name in enumerate(("events-0", "events-1", "orders-0")):
        with Log.open(str(root / name), CONFIG) as log:
            for turn in range(2 + number):
                values = [
                    Record(value=b"v" * (60 + turn), key=b"k%d" % each, timestamp_ms=1000 * turn) for each in (1, 2)
                ]
                log.append(values)
                with log.transaction(7 + number) as transaction:
                    transaction.append([Record(value=b"t" * 40, timestamp_ms=1000 * turn + 1)])
                    if turn % 2:
                        transaction.abort()
    (root / names.CLEAN_SHUTDOWN).write_text('{"version":0,"brokerEpoch":-1}')
    (root / names.LOCK_FILE).unlink(missing_ok=True)
    return root


def harm_logs(root: Path) -> Path:
    """One bit in the middle of a segment, and a torn end of another: every partition but one is
    damaged."""
    logs = sorted((root / "events-1").glob("*.log"))
    raw = bytearray(logs[1].read_bytes())
    raw[100] ^= 1
    logs[1].write_bytes(raw)
    last = sorted((root / "orders-0").glob("*.log"))[-1]
    last.write_bytes(last.read_bytes()[:-9])
    return root


def harm_indexes(root: Path) -> Path:
    """Derived files that are wrong, missing, or of no segment."""
    for number, path in enumerate(sorted(path for path in root.glob("*/*") if path.suffix != ".log")):
        if path.name in (names.PARTITION_METADATA, names.LONE_CLEAN_MARK):
            continue
        if number % 3 == 0:
            path.write_bytes(path.read_bytes()[:-8])
        elif number % 7 == 1:
            path.unlink()
    (root / "events-0" / f"{99:020d}.snapshot").write_bytes(b"stale")
    return root


def check_order(left: Tree, done: Tree) -> None:
    """The mark is there only beside everything, and checkpoints only beside all partitions."""
    checkpoints = {name for name in done if name.endswith("-offset-checkpoint")}
    assert checkpoints
    if checkpoints & left.keys():
        assert left.keys() >= {name for name in done if "/" in name}, "a checkpoint before a partition"
    if names.CLEAN_SHUTDOWN in left:
        assert left.keys() >= done.keys(), "the mark before what it vouches for"


def check_order_in_place(before: Tree, left: Tree, done: Tree) -> None:
    """The mark is there only where no name has changed yet, or every one has. A checkpoint is new
    only beside partitions that are new. The offset index beside a new .log that is not the
    beginning of the old one, or beside that one, is never the other one's."""
    old, now, new = _settled(before), _settled(left), _settled(done)
    if names.CLEAN_SHUTDOWN in now:
        is_untouched = now == old and not any(DATED.search(name) for name in left)
        assert is_untouched or now == new, "a mark beside what is half-published"
    if any(now.get(name) == new[name] != old.get(name) for name in new if name.endswith("-offset-checkpoint")):
        files = {name: data or new.get(name) for name, data in now.items() if "/" in name}
        assert files == {name: data for name, data in new.items() if "/" in name}, "a checkpoint before a partition"
    for log in (name for name in old.keys() & new.keys() if name.endswith(".log")):
        index = log.removesuffix(".log") + ".index"
        if log in now and not old[log].startswith(new[log]):
            right = new if now[log] == new[log] else old
            assert now.get(index, b"") in (b"", right[index]), f"{index} is not of its log"


def _settled(files: Tree) -> dict[str, bytes]:
    """The files without those that were set aside, and those of a run."""
    of_a_run = (STAGING_PREFIX, LOCK_NAME, names.LOCK_FILE)
    return {
        name: data
        for name, data in files.items()
        if data is not None and not DATED.search(name) and not any(each in f"/{name}" for each in of_a_run)
    }


class Publications:
    """What is published, from log directories that were written once."""

    def __init__(self, folder: Path) -> None:
        self.damaged = harm_logs(write_log_dir(folder / "damaged"))
        self.stale = harm_indexes(write_log_dir(folder / "stale"))

    def recover_in_place(self, below: str = "") -> Publication:
        def start(folder: Path) -> Path:
            shutil.copytree(self.damaged, folder / "logs")
            return folder / "logs"

        def run(folder: Path, env: Env) -> object:
            path = str(folder / "logs" / below).rstrip("/")
            report = recover(path, path, CONFIG, in_place=True, env=env)
            return report.lossy, report.messages, len(report.skipped), report.skipped_bytes, sorted(report.kept)

        return Publication(
            start,
            run,
            (names.CLEAN_SHUTDOWN,),
            check_order=partial(check_order_in_place, tree(self.damaged)),
            may_be_empty=lambda name: name.endswith(".index"),
        )

    def recover_elsewhere(self) -> Publication:
        def start(folder: Path) -> Path:
            return folder / "new" / "out"

        def run(folder: Path, env: Env) -> object:
            report = recover(str(self.damaged), str(folder / "new" / "out"), CONFIG, env=env)
            return report.lossy, report.messages, len(report.skipped), report.skipped_bytes, sorted(report.kept)

        return Publication(start, run, check_order=check_order)

    def rebuild_in_place(self, below: str = "") -> Publication:
        def start(folder: Path) -> Path:
            shutil.copytree(self.stale, folder / "logs")
            return folder / "logs"

        def run(folder: Path, env: Env) -> object:
            path = str(folder / "logs" / below).rstrip("/")
            report = rebuild(path, path, key_index=True, in_place=True, env=env)
            return report.lossy, report.messages, report.files, report.inferred, report.assumed, sorted(report.kept)

        return Publication(start, run)

    def rebuild_elsewhere(self, *, had_old: bool) -> Publication:
        def start(folder: Path) -> Path:
            out = folder / "new" / "out"
            if had_old:
                out.mkdir(parents=True)
                for name in ("events-0", "orders-0"):
                    shutil.copytree(self.stale / name, out / name, ignore=shutil.ignore_patterns("*.log"))
            return out

        def run(folder: Path, env: Env) -> object:
            report = rebuild(str(self.stale), str(folder / "new" / "out"), env=env)
            return report.lossy, report.messages, report.files, report.inferred, report.assumed, sorted(report.kept)

        return Publication(start, run)
