"""The active segment is cut while a partition is looked at, as a follower's that follows another
leader: the answer is that of the log before or behind the cut."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path

from logdex.convert.sources.kafka import LogDirSource
from logdex.convert.stats import stats
from logdex.errors import OffsetOutOfRangeError
from logdex.io.env import Env
from logdex.kafka.batch.record import Record
from logdex.kafka.directory.recognise import require_kafka
from logdex.kafka.log.log import Log
from logdex.kafka.settings.log_config import LogConfig
from logdex.kafka.snapshot.overview import overview
from logdex.kafka.snapshot.partition_snapshot import PartitionSnapshot
from tests.beside import At, Beside
from tests.examples import some


def looked_at(home: Path, env: Env) -> list[object]:
    """What `info` tells, and all pages of the partition."""
    found = overview(require_kafka(str(home), env=env), LogConfig(), env=env)
    assert found.problems == []
    told: list[object] = [found.partitions[0].log_end_offset]
    # The log may end before the next page by now.
    with suppress(OffsetOutOfRangeError), PartitionSnapshot(home / "t-0", env=env) as snapshot:
        while page := snapshot.read(len(told) - 1, max_bytes=1):
            told += [record.offset for record in page]
    return told


def log_dir(home: Path) -> tuple[Path, int]:
    """Makes a log directory of one partition with 20 records. Returns the path of its log in it,
    and where the record of offset 12 begins."""
    home.mkdir()
    (home / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=c\n")
    with Log.open(home / "t-0") as log:
        for number in range(20):
            log.append(Record(b"k%d" % number, b"v" * 100))
    with PartitionSnapshot(home / "t-0") as snapshot:
        found = snapshot.segment(0).locate(12)
        assert found is not None
    return Path("t-0", f"{0:020d}.log"), found.position


def test_the_active_segment_is_cut_before_any_operation(tmp_path: Path) -> None:
    home = tmp_path / "logs"
    path, cut_at = log_dir(home)
    still = At(0, lambda: None)
    assert looked_at(home, still) == [20, *range(20)]
    for number in some(range(1, -still.left + 1), 7):
        root = Path(shutil.copytree(home, tmp_path / str(number)))
        end, *pages = looked_at(root, At(number, partial(os.truncate, root / path, cut_at)))
        assert end in (12, 20)
        assert pages == list(range(len(pages)))
        assert 12 <= len(pages) <= 20


def test_what_was_cut_off_before_it_was_counted_is_no_damage(tmp_path: Path) -> None:
    home = tmp_path / "logs"
    path, cut_at = log_dir(home)
    counted = list[int]()
    for number in count(1):
        root = Path(shutil.copytree(home, tmp_path / str(number)))
        env = Beside(path.name, partial(os.truncate, root / path, cut_at), number)
        report = stats(LogDirSource(str(root)), env=env)
        assert report.losses == []  # what is left is counted again
        counted.append(report.queues[0].messages)
        if not env.has_acted:
            break
    assert set(counted) == {12, 20}
