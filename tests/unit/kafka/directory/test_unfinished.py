"""Publications that were broken off, as they are told of at a log directory and at a partition."""

from __future__ import annotations

from pathlib import Path

from logdex.io.env import Env
from logdex.jobs.journal import PUT, Journal, Step, write_journal
from logdex.kafka.directory.recognise import KafkaPath, KafkaPathKind
from logdex.kafka.directory.unfinished import unfinished_at


def test_a_partition_tells_of_what_changes_its_own_files(tmp_path: Path) -> None:
    for name in ("orders-0", "orders-01"):
        (tmp_path / name).mkdir()
    journal = Journal("a run", ".", ".logdex-staging-1", steps=[Step(PUT, "orders-0/00.index")])
    write_journal(str(tmp_path), journal, sync=False, env=Env())
    mine, other = (KafkaPath(str(tmp_path / name), KafkaPathKind.PARTITION) for name in ("orders-0", "orders-01"))
    whole = KafkaPath(str(tmp_path), KafkaPathKind.LOG_DIR)
    assert [len(unfinished_at(found, Env())) for found in (whole, mine, other)] == [1, 1, 0]
