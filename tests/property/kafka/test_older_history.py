"""A partition has no findings whichever brokers wrote it in turn: some make an index entry per
append, others, and `Log`, per batch."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from logdex.kafka.batch.record import Record
from logdex.kafka.log.log import Log
from logdex.kafka.settings.log_config import LogConfig
from logdex.kafka.verify import verify
from tests.examples import cases
from tests.unit.kafka.verify.older_broker import OlderBroker, batch_at, batches_of

MS = 1_700_000_000_000


class History:
    """A partition under random brokers."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.chance, self.now_ms = folder, random.Random(seed), MS

    def times(self) -> list[int]:
        self.now_ms += self.chance.choice((0, 0, 1, 50, 50))
        late = self.chance.choice((0, 0, 30, 100))
        return [self.now_ms - self.chance.randrange(late + 1) for _ in range(self.chance.choice((1, 2, 5)))]

    def starts(self) -> list[int]:
        """The offsets at which batches begin; a follower truncates to one of them."""
        logs = sorted(self.folder.glob("*.log"))
        return [each.base_offset for log in logs for each in batches_of(log.read_bytes())]

    def older(self) -> None:
        """Many batches at once, as of a follower that catches up, or one, as of a leader."""
        chance = self.chance
        broker = OlderBroker(self.folder, chance.choice((0, 150, 600)), own_offsets=chance.random() < 0.3)
        for _ in range(chance.choice((1, 4, 12))):
            data, offset = b"", broker.next_offset
            for _ in range(chance.choice((1, 1, 3, 10))):
                times = self.times()
                data += batch_at(offset, *times, size=chance.choice((1, 1, 90)))
                offset += len(times) + chance.choice((0, 0, 0, 3))  # a compaction leaves gaps
            broker.append(data)
            if chance.random() < 0.1:
                broker.roll()
        broker.close()

    def newer(self) -> None:
        chance = self.chance
        config = LogConfig(
            index_interval_bytes=chance.choice((0, 150, 600)), segment_bytes=chance.choice((1500, 1 << 20))
        )
        with Log.open(self.folder, config, clock_ms=lambda: self.now_ms) as log:
            if self.starts() and chance.random() < 0.3:
                log.truncate_to(chance.choice(self.starts()))
            for _ in range(chance.choice((0, 3, 10))):
                log.append([Record(b"k", bytes(chance.choice((1, 90))), at) for at in self.times()])


@pytest.mark.parametrize("seed", cases(range(400), 200))
def test_no_findings_after_any_history(tmp_path: Path, seed: int) -> None:
    history = History(tmp_path / "events-0", seed)
    history.older()
    for _ in range(history.chance.choice((1, 3, 6))):
        history.chance.choice((history.older, history.newer))()
        report = verify(history.folder)
        assert report.findings == [], seed
