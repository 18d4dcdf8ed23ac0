"""A `Log` that a forked child inherited: the child writes nothing, and takes nothing from the
parent."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from logdex.errors import UsageError
from logdex.kafka.log.log import Log
from tests.examples import cases
from tests.unit.kafka.log.logs import values

_SCRIPT = """
import os, sys
from logdex.kafka import Log, Record
from logdex.errors import LogInUseError

def refused(use):
    try:
        use()
    except LogInUseError:
        return True
    return False

path, other = sys.argv[1:]
log = Log.open(path)
log.append(Record(value=b"parent"))
child = os.fork()
if not child:
    wrong = [
        not refused(lambda: log.append(Record(value=b"child"))),
        not refused(log.roll),
        not refused(lambda: log.delete_records(1)),
        not refused(lambda: Log.open(other)),
        [record.value for record in log.read(0)] != [b"parent"],
    ]
    log.close()
    os._exit(sum(1 << place for place, each in enumerate(wrong) if each))
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
log.append(Record(value=b"again"))
log.close()
sys.exit(code)
"""


@pytest.mark.parametrize("is_log_directory", cases([False, True], 2, first=1))
def test_a_forked_child_does_not_write(tmp_path: Path, is_log_directory: bool) -> None:
    if is_log_directory:
        (tmp_path / "meta.properties").write_text("version=1\ncluster.id=c\nnode.id=1\n")
    path = str(tmp_path / "events-0")
    other = str(tmp_path / "events-1") if is_log_directory else path
    subprocess.run([sys.executable, "-c", _SCRIPT, path, other], check=True, timeout=60)
    with Log.open(path) as log:
        assert values(log.read(0)) == ["parent", "again"]


def test_a_stray_partition_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / f"events-0.{'0' * 32}-stray"
    path.mkdir()
    with pytest.raises(UsageError, match="not that of a partition"):
        Log.open(str(path))
    assert list(path.iterdir()) == []
