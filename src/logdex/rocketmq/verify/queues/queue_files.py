"""Checks the files of one queue: their sizes, and that they follow one another."""

from __future__ import annotations

from logdex.layout.rocketmq import FILE_NAME_DIGITS
from logdex.rocketmq.verify.checks import Collector
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
