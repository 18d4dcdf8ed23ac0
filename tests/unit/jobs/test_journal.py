"""The journal of a publication: read back as written, nothing where it is torn, refused where it is
malformed."""

from __future__ import annotations

import errno
import json
import re
import zlib
from pathlib import Path
from typing import Any

import pytest

from logdex.errors import CorruptError, StorageError
from logdex.io.env import Env
from logdex.io.name_changes import FileStamp
from logdex.jobs.journal import LOCK_NAME, Journal, Step, find_unfinished, read_journal, unfinished_of, write_journal
from logdex.jobs.staging import Staging
from logdex.testing import Fault, FaultEnv

STEP = Step("put", "events-1/00.log", "events-1/00.log.20260101T000000Z", FileStamp("file", 7, 8, 9), None)
JOURNAL = Journal("logdex recover logs --in-place", ".", "events-1/.logdex-staging-1", {"index": {"a": 1}}, [STEP])


def put(directory: Path, fields: Any) -> None:
    text = json.dumps(fields).encode()
    (directory / LOCK_NAME).write_bytes(b"logdex publication 1\n" + text + b"\n%08x\n" % zlib.crc32(text))


def test_it_is_read_as_it_was_written(tmp_path: Path) -> None:
    assert read_journal(str(tmp_path), Env()) is None
    write_journal(str(tmp_path), JOURNAL, sync=True, env=Env())
    assert read_journal(str(tmp_path), Env()) == JOURNAL
    (found,) = find_unfinished([str(tmp_path)], Env())
    assert (found.command, found.is_running) == (JOURNAL.command, False)


def test_its_paths_may_have_a_scheme() -> None:
    (path,) = unfinished_of("s3://bucket/logs", JOURNAL, is_running=False).paths
    assert path == "s3://bucket/logs/events-1/00.log"


def test_names_that_are_not_utf8(tmp_path: Path) -> None:
    journal = Journal("a run", "\udcff", ".logdex-staging-1", {}, [Step("aside", "\udcfe", "\udcfe.1")])
    write_journal(str(tmp_path), journal, sync=False, env=Env())
    assert read_journal(str(tmp_path), Env()) == journal


def test_a_journal_that_was_not_written_completely_is_none(tmp_path: Path) -> None:
    whole = JOURNAL.to_bytes()
    for size in range(len(whole) - 1):
        (tmp_path / LOCK_NAME).write_bytes(whole[:size])
        assert read_journal(str(tmp_path), Env()) is None
    (tmp_path / LOCK_NAME).write_bytes(whole[:40] + bytes(9) + whole[49:])
    assert read_journal(str(tmp_path), Env()) is None


FIELDS = json.loads(JOURNAL.to_bytes().split(b"\n")[1])


@pytest.mark.parametrize(
    "fields",
    [
        FIELDS | {"output": "../other"},
        FIELDS | {"output": "/other"},
        FIELDS | {"staging": "../.logdex-staging-1"},
        FIELDS | {"steps": [FIELDS["steps"][0] | {"name": "../../etc/passwd"}]},
        FIELDS | {"steps": [FIELDS["steps"][0] | {"kept": "a/../../x"}]},
        FIELDS | {"steps": [FIELDS["steps"][0] | {"staged": "../../../x"}]},
        FIELDS | {"steps": [FIELDS["steps"][0] | {"kind": "remove"}]},
        FIELDS | {"steps": [{}]},
        FIELDS | {"steps": 7},
        FIELDS | {"more": 7},
        FIELDS | {"output": 7},
        FIELDS | {"steps": [FIELDS["steps"][0] | {"name": 7}]},
        FIELDS | {"steps": [FIELDS["steps"][0] | {"old": [1]}]},
        FIELDS | {"steps": [FIELDS["steps"][0] | {"kept": None}]},
        FIELDS | {"settings": 7},
        FIELDS | {"settings": {"index": 7}},
        [],
        7,
    ],
)
def test_a_crafted_journal_is_refused(tmp_path: Path, fields: Any) -> None:
    put(tmp_path, fields)
    before = (tmp_path / LOCK_NAME).read_bytes()
    with pytest.raises(CorruptError, match="no journal of a publication"):
        read_journal(str(tmp_path), Env())
    assert find_unfinished([str(tmp_path)], Env()) == []
    with pytest.raises(CorruptError):
        Staging(Env(), str(tmp_path), sync=False)
    assert (tmp_path / LOCK_NAME).read_bytes() == before


def test_a_journal_that_cannot_be_read_stops_a_writer(tmp_path: Path) -> None:
    """A reader goes on: whether something was broken off there is not known."""
    for kind in ("stamp", "open_read"):
        (tmp_path / LOCK_NAME).write_bytes(b"{}")
        refusing = [FaultEnv(str(tmp_path), Fault(1, errno.EIO, kinds=frozenset({kind}))) for _ in range(2)]
        assert find_unfinished([str(tmp_path)], refusing[0]) == []
        with pytest.raises(StorageError, match=re.escape(LOCK_NAME)):
            find_unfinished([str(tmp_path)], refusing[1], is_writer=True)
