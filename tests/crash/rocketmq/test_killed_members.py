"""Members of one group in several processes, which are killed with SIGKILL one after the other:
nothing is lost, and the others take over the queues of the dead."""

from __future__ import annotations

import itertools
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from logdex.rocketmq.consuming.consumer_offsets import ConsumerOffsetManager
from tests.crash.rocketmq.killed_members import GROUP, TOPIC
from tests.hostile.cutting import ROOT
from tests.unit.rocketmq.consuming.stores import put_numbers, store_with

MEMBERS, PUT = 3, 40
_files = itertools.count()


class Member:
    """A process that consumes."""

    def __init__(self, store: Path, folder: Path) -> None:
        self.file = folder / f"member-{next(_files)}"
        command = [sys.executable, "-m", "tests.crash.rocketmq.killed_members", str(store), str(self.file)]
        self.process = subprocess.Popen(command, cwd=ROOT)

    @property
    def consumed(self) -> list[tuple[int, int, int]]:
        """(number, queue, queue offset) of each message that it has consumed."""
        lines = self.file.read_text().splitlines(keepends=True) if self.file.exists() else []
        rows = [line.split() for line in lines if line.endswith("\n")]
        return [(int(number), int(queue), int(offset)) for number, queue, offset in rows]

    def kill(self) -> None:
        assert self.process.poll() is None, f"the member ended by itself ({self.process.returncode})"
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


def wait_until(is_so: Callable[[], bool], what: str) -> None:
    until_s = time.monotonic() + 120
    while not is_so():
        assert time.monotonic() < until_s, what
        time.sleep(0.05)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("kills", [2, pytest.param(40, marks=pytest.mark.slow)])
def test_killed_members_lose_nothing(tmp_path: Path, kills: int) -> None:
    chance, root = random.Random(kills), tmp_path / "store"
    alive, dead = list[Member](), list[Member]()
    with store_with(root, 0) as store:
        put = 0

        def put_more() -> None:
            nonlocal put
            put_numbers(store, range(put, put + PUT))
            store.dispatch()
            put += PUT

        def works(member: Member) -> bool:
            """Whether it has consumed something; puts something for it otherwise."""
            if not member.consumed:
                put_more()
            return bool(member.consumed)

        try:
            for _ in range(kills):
                while len(alive) < MEMBERS:
                    alive.append(Member(root, tmp_path))
                doomed = chance.choice(alive)
                put_more()
                wait_until(lambda each=doomed: works(each), "a member gets nothing")  # type: ignore[misc]
                time.sleep(chance.uniform(0.0, 0.1))
                doomed.kill()
                alive.remove(doomed)
                dead.append(doomed)
            all_numbers = set(range(put))

            def seen() -> set[int]:
                return {number for member in (*alive, *dead) for number, _, _ in member.consumed}

            wait_until(lambda: seen() == all_numbers, f"{len(all_numbers)} were put")
            ends = {queue.queue_id: queue.max_offset for queue in store.queues() if queue.topic == TOPIC.encode()}
            offsets = ConsumerOffsetManager(root)
            wait_until(lambda: offsets.query_offsets(GROUP, TOPIC) == ends, "not all is committed")
        finally:
            for member in alive:
                member.kill()
    assert sum(bool(member.consumed) for member in (*alive, *dead)) > kills
