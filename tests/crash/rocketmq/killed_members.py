"""Run as a program: a member of a consumer group, which works until it is killed.

    python -m tests.crash.rocketmq.killed_members STORE FILE

For each message that it has consumed, a line with its number, queue and queue offset is in FILE
before the member commits it.
"""

from __future__ import annotations

import os
import sys
import time

from logdex.rocketmq.consuming.consumer import Consumer

GROUP, TOPIC = "G", "orders"


def main(store: str, file: str) -> None:
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    with Consumer(store, GROUP, TOPIC, rebalance_interval_s=0.05) as member:
        while True:
            for message in member.poll(3, timeout=0.5):
                time.sleep(0.002)  # so that a kill meets work that is half done
                os.write(descriptor, b"%b %d %d\n" % (message.body, message.queue_id, message.queue_offset))
            member.commit()


if __name__ == "__main__":
    main(*sys.argv[1:3])
