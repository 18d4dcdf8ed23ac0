"""Checks that the names of CommitLog files are those of the offsets at which their messages lie,
and that nothing else is beside them."""

from __future__ import annotations

import posixpath
import shlex

from logdex.errors import StorageError
from logdex.io.env import Env
from logdex.io.name_changes import NO_FILE
from logdex.layout.rocketmq import FILE_NAME_DIGITS
from logdex.rocketmq.commit_log.commit_log import CommitLog, CommitLogFile
from logdex.rocketmq.commit_log.misnamed import foreign_files, stated_start
from logdex.rocketmq.files.offset_files import offset_in_name
from logdex.rocketmq.verify.checks import MOVE_AWAY, MOVE_OUT, OTHER_FILE, Collector


def well_named(log: CommitLog, out: Collector, env: Env) -> tuple[list[CommitLogFile], frozenset[int]]:
    """Returns the files whose messages lie where the names say. Reports all else in the directory,
    and returns the physical offsets at which misnamed files lie, where no other file lies."""
    stated = {file: None if file.start_offset in log.unusable else stated_start(log, file) for file in log.files}
    foreign = [] if log.is_one_file else _foreign(log, out, env)
    misnamed = {file.path: start for file, start in [*stated.items(), *foreign] if start is not None}
    names = _Names(log, misnamed, out, env)
    for path, place in misnamed.items():
        names.report(path, place)
    for file, start in foreign:
        if start is None:
            names.report_other(file)
    return [file for file, start in stated.items() if start is None], frozenset(names.elsewhere)


def _foreign(log: CommitLog, out: Collector, env: Env) -> list[tuple[CommitLogFile, int | None]]:
    """Returns the files whose names are no offsets, and where they lie by their messages. Reports
    what is no file and has the name of one, where the log has none."""
    for path in log.foreign_paths:
        if offset_in_name(posixpath.basename(path)) is not None and env.exists(path) and not env.is_file(path):
            out.find("unreadable", path, 0, NO_FILE, expected="no file of the log", mend=MOVE_AWAY)
    found: list[tuple[CommitLogFile, int | None]] = []
    for file in foreign_files(log, env):
        try:
            found.append((file, stated_start(log, file)))
        except StorageError:  # nothing of the log can be read there
            found.append((file, None))
    return found


class _Names:
    """Reports names. `misnamed` are the physical offsets at which files lie, by their paths;
    `elsewhere` collects those that no file has whose name is right."""

    def __init__(self, log: CommitLog, misnamed: dict[str, int], out: Collector, env: Env) -> None:
        self.elsewhere: set[int] = set()
        self._log, self._misnamed, self._out, self._env = log, misnamed, out, env

    def report(self, path: str, start: int) -> None:
        """Reports a file that lies at another place than its name says."""
        right = f"{posixpath.dirname(path)}/{start:0{FILE_NAME_DIGITS}d}"
        is_free = start not in self.elsewhere and not self._env.exists(right)
        if is_free or right in self._misnamed:
            self.elsewhere.add(start)
        elif offset_in_name(posixpath.basename(path)) is None:
            self._find_other(path, right)
            return
        self._out.find(
            "commit-log-name",
            path,
            0,
            "the messages of this file lie elsewhere in the log",
            expected=posixpath.basename(right),
            found=posixpath.basename(path),
            mend=f"mv {shlex.quote(path)} {shlex.quote(right)}" if is_free else self._mend_taken(path, right),
        )

    def report_other(self, file: CommitLogFile) -> None:
        """Reports a file that has no offset, neither in its name nor in its messages. A broker
        removes an empty one behind all others."""
        if file.size_bytes or file.path < self._log.files[-1].path:
            self._find_other(file.path, "")

    def _find_other(self, path: str, copy_of: str) -> None:
        self._out.find(
            "commit-log-other-file",
            path,
            0,
            OTHER_FILE,
            expected=f"names of {FILE_NAME_DIGITS} digits",
            found=f"the messages of {posixpath.basename(copy_of)}" if copy_of else posixpath.basename(path),
            mend=MOVE_OUT,
        )

    def _mend_taken(self, path: str, right: str) -> str:
        """Returns the mend for a file whose name another file has."""
        if right not in self._misnamed:
            return MOVE_AWAY
        back = f"{posixpath.dirname(path)}/{self._misnamed[right]:0{FILE_NAME_DIGITS}d}"
        if back != path:
            return f"{self._out.recover}, which reads each file where its messages lie"
        if path > right:
            return f"nothing by itself: the commands for {posixpath.basename(right)} exchange the two names"
        one, other, aside = shlex.quote(path), shlex.quote(right), shlex.quote(f"{path}.aside")
        return f"mv {one} {aside} && mv {other} {one} && mv {aside} {other}"
