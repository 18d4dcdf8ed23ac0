"""Checks that the names of CommitLog files are those of the offsets at which their messages lie."""

from __future__ import annotations

import posixpath
import shlex

from logdex.io.env import Env
from logdex.layout.rocketmq import FILE_NAME_DIGITS
from logdex.rocketmq.commit_log.commit_log import CommitLog, CommitLogFile
from logdex.rocketmq.commit_log.misnamed import stated_start
from logdex.rocketmq.verify.checks import MOVE_AWAY, Collector


def well_named(log: CommitLog, out: Collector, env: Env) -> tuple[list[CommitLogFile], frozenset[int]]:
    """Returns the files whose messages lie where the names say. Reports the others, and returns the
    physical offsets at which they lie, where no file has that name."""
    files, elsewhere = [], set()
    for file in log.files:
        stated = None if file.start_offset in log.unusable else stated_start(log, file)
        if stated is None:
            files.append(file)
            continue
        right = f"{posixpath.dirname(file.path)}/{stated:0{FILE_NAME_DIGITS}d}"
        if is_free := not env.exists(right):
            elsewhere.add(stated)
        out.find(
            "commit-log-name",
            file.path,
            0,
            "the messages of this file lie elsewhere in the log",
            expected=posixpath.basename(right),
            found=posixpath.basename(file.path),
            mend=f"mv {shlex.quote(file.path)} {shlex.quote(right)}" if is_free else MOVE_AWAY,
        )
    return files, frozenset(elsewhere)
