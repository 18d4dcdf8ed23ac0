"""Run as a program: slaves of one `MessageStore` that is put into all the time, each killed with
SIGKILL at a random moment, their store checked after each.

    python -m tests.crash.rocketmq.killed_slaves DIRECTORY ROUNDS SEED
    python -m tests.crash.rocketmq.killed_slaves DIRECTORY     the master, until its input ends
"""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

from logdex.rocketmq.ha.follower import Follower
from logdex.rocketmq.ha.service import HAService
from logdex.rocketmq.ha.timing import HATiming
from logdex.rocketmq.message_store.message_store import MessageStore
from logdex.rocketmq.message_store.put.message import Message
from logdex.rocketmq.settings.store_config import StoreConfig
from logdex.rocketmq.verify import verify
from tests.crash.killed import kill_writers, tell
from tests.crash.rocketmq.killed_writers import SIZES


def serve(path: str) -> None:
    """A master: prints its port, and puts until the end of its input."""
    chance, ended = random.Random(1), threading.Event()

    def wait_for_end() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=wait_for_end, daemon=True).start()
    with (
        MessageStore.open(path, **SIZES) as store,
        HAService(store, port=0, in_sync_replicas=2, slave_timeout_ms=100) as service,
    ):
        print(service.port, flush=True)
        while not ended.is_set():
            if store.max_phy_offset > 1_000_000:
                ended.wait()
            batch = [
                Message("T", b"x" * chance.randrange(900), keys=str(chance.random()), queue_id=0) for _ in range(4)
            ]
            store.put_messages(batch[: chance.randrange(1, 5)])
            store.put_message(Message(chance.choice("UV"), b"x" * chance.randrange(900), keys="k"))


def follower(address: str, path: str) -> Follower:
    return Follower(address, path, timing=HATiming(retry_s=0.01), **SIZES)


def slave(address: str, path: str, pipe: int, _: int) -> None:
    """Follows until it is killed; tells the pipe what it acknowledged."""
    found = follower(address, path)
    found.run(progress=lambda *_: tell(pipe, found.report.acknowledged))


def log_of(path: str, end: int) -> bytes:
    return b"".join(file.read_bytes() for file in sorted(Path(path, "commitlog").iterdir()))[:end]


def check(path: str, master: str, known: int) -> int:
    """Requires what was acknowledged, the master's bytes, and no finding. Returns the end of the
    log."""
    with MessageStore.open(path, is_slave=True, background=False, **SIZES) as store:
        end = store.max_phy_offset
        assert end >= known, (end, known)
    assert log_of(path, end) == log_of(master, end)
    report = verify(path, StoreConfig(**SIZES))
    assert not report.findings, [str(finding) for finding in report.findings]
    return end


def main(directory: str, rounds: int, seed: int) -> int:
    master, copy, warm = f"{directory}/master", f"{directory}/slave", f"{directory}/warm"
    with MessageStore.open(warm, background=False, **SIZES) as store:
        store.put_message(Message("T", keys="k"))
    check(warm, warm, 1)  # loads the kernels, which forked slaves then have
    command = [sys.executable, "-m", "tests.crash.rocketmq.killed_slaves", master]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        address = f"127.0.0.1:{int(process.stdout.readline())}"
        kill_writers(partial(slave, address, copy), partial(check, copy, master), rounds, seed)
        with follower(address, copy) as last:
            last.run(until_caught_up=True)
        process.stdin.close()
        assert process.wait(60) == 0
    return check(copy, master, last.report.end_offset)


if __name__ == "__main__":
    if len(sys.argv) == 2:
        serve(sys.argv[1])
    else:
        print(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
