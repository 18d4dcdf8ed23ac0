"""The clean-shutdown mark of a log directory: gone from the disk while any of its partitions is
open."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from logdex.errors import UsageError
from logdex.io.atomic_file import write_atomically
from logdex.io.env import Env
from logdex.kafka.batch.record import Record
from logdex.kafka.files.file_names import CLEAN_SHUTDOWN
from logdex.kafka.log.log import Log


def test_a_log_that_is_opened_while_the_last_one_closes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has the lock before the mark is put back: it must take the mark away again."""
    (tmp_path / "meta.properties").write_text("version=1\ncluster.id=c\nnode.id=1\n")
    mark = tmp_path / CLEAN_SHUTDOWN
    mark.write_bytes(b'{"version":0,"brokerEpoch":-1}')
    first = Log.open(str(tmp_path / "a-0"))
    first.append(Record(value=b"a"))
    opened: list[Log] = []
    thread = threading.Thread(target=lambda: opened.append(Log.open(str(tmp_path / "b-0"))))
    lock = first._core.home._lock

    def write_mark(path: str, data: bytes, *, env: Env) -> None:
        if path == str(mark):
            thread.start()
            while lock.is_last:
                thread.join(0.001)  # it waits for the guard, once it shares the lock
        write_atomically(path, data, env=env)

    monkeypatch.setattr("logdex.kafka.directory.log_lock.write_atomically", write_mark)
    first.close()
    thread.join(20)
    monkeypatch.undo()
    (second,) = opened
    assert not mark.exists()
    second.append(Record(value=b"b"))
    second.close()
    assert mark.exists()


def test_a_wrong_name_makes_no_directory(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="the name is not that of a partition"):
        Log.open(tmp_path / "new" / "events")
    assert list(tmp_path.iterdir()) == []
