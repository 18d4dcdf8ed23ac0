"""Checks the files of one queue: their sizes, that they follow one another, and that nothing else
lies beside them."""

from __future__ import annotations

import posixpath

from logdex.io.env import Env
from logdex.layout.rocketmq import FILE_NAME_DIGITS
from logdex.rocketmq.verify.checks import MOVE_OUT, OTHER_FILE, Collector
from logdex.rocketmq.verify.queues.queue_disk import QueueDisk


def check_files(disk: QueueDisk, out: Collector, *, is_unclean: bool) -> None:
    """Reports files of another size, and those that are missing between others."""
    out.files += len(disk.files)
    expected: int | None = None
    for file in disk.files:
        if is_unclean and not file.size_bytes and file is disk.files[-1]:
            text = "an empty file: a running broker makes it just now, or a crash left it without its entries"
            out.info("consume-queue-file-size", file.path, text)
        elif file.size_bytes != disk.file_size_bytes:
            out.find(
                "consume-queue-file-size",
                file.path,
                file.size_bytes,
                "a ConsumeQueue file of another size",
                expected=disk.file_size_bytes,
                found=file.size_bytes,
                mend=f"{out.rebuild}; if all files are so long, state --mapped-file-size-consume-queue",
            )
        if expected is not None and file.start_offset > expected:
            out.find(
                "consume-queue-gap",
                f"{disk.directory}/{expected:0{FILE_NAME_DIGITS}d}",
                0,
                "a ConsumeQueue file is missing, the queue goes on behind it",
                expected=f"{expected:0{FILE_NAME_DIGITS}d}",
                found=f"{file.start_offset:0{FILE_NAME_DIGITS}d}",
                mend=out.rebuild,
            )
        expected = file.start_offset + disk.file_size_bytes


def find_others(disk: QueueDisk, out: Collector, env: Env) -> None:
    """Reports files beside those of the queue. A broker removes an empty one behind all others."""
    last = disk.files[-1].path if disk.files else ""
    for path in disk.foreign:
        if env.is_file(path) and (path < last or env.size_bytes(path)):
            name = posixpath.basename(path)
            expected = f"names of {FILE_NAME_DIGITS} digits"
            out.find("consume-queue-other-file", path, 0, OTHER_FILE, expected=expected, found=name, mend=MOVE_OUT)
