"""`leader-epoch-checkpoint` against the epochs that the batches bear.

A live file may also hold epochs under which nothing was written, and begins where the log does.
"""

from __future__ import annotations

from typing import NamedTuple

from logdex.errors import CorruptError
from logdex.io.env import Env
from logdex.kafka.checkpoints import checked_number, malformed, read_checkpoint_lines
from logdex.kafka.epoch_runs import EpochRun, EpochRuns
from logdex.kafka.verify.checks import REMOVE, Collector


class _Line(NamedTuple):
    """An entry of the checkpoint and the byte where its line begins."""

    epoch: int
    start_offset: int
    position: int


def check_epochs(path: str, runs: EpochRuns, out: Collector, env: Env, *, is_unclean: bool) -> None:
    """Findings for the checkpoint at `path`, and for batches that alone bear another epoch than their neighbours."""
    believed, harmed = runs.sort_out()
    for run in harmed:
        out.find(
            "batch-leader-epoch",
            run.path,
            run.position,
            "a batch's leader epoch does not lie between its neighbours'",
            expected="that of the batches around it",
            found=run.epoch,
            mend=out.recover,
        )
    if not env.exists(path):
        if believed:
            out.info("no-leader-epochs", path, "there is no such file: a broker derives it from the log")
        return
    out.files += 1
    try:
        lines = _read(path, env)
    except CorruptError as error:
        message = error.message.removeprefix(f"{path}: byte {error.position}: ")
        out.find(
            "leader-epoch-malformed",
            path,
            error.position,
            message,
            expected=error.expected,
            found=error.found,
            mend=REMOVE,
        )
        return
    for run in believed:
        _check_run(path, run, lines, out, env, is_unclean=is_unclean)


def _read(path: str, env: Env) -> list[_Line]:
    found: list[_Line] = []
    for line in read_checkpoint_lines(path, env=env):
        fields = line.text.split()
        if len(fields) != 2:
            raise malformed(path, line, "epoch start-offset")
        epoch, offset = checked_number(path, line, fields[0], 31), checked_number(path, line, fields[1], 63)
        if found and (epoch <= found[-1].epoch or offset < found[-1].start_offset):
            raise malformed(path, line, f"an epoch above {found[-1].epoch}, from {found[-1].start_offset} on")
        found.append(_Line(epoch, offset, line.position))
    return found


def _check_run(path: str, run: EpochRun, lines: list[_Line], out: Collector, env: Env, *, is_unclean: bool) -> None:
    """The lines that cover the run's first and last batch must be of its epoch."""
    own = next((line for line in lines if line.epoch == run.epoch), None)
    if own is not None and own.start_offset <= run.last_start_offset:
        behind = next((line for line in lines if line.epoch > run.epoch), None)
        is_first = own is lines[0]  # the log was cut at its start: nothing is said of what lies before
        if (is_first or own.start_offset <= run.start_offset) and (
            behind is None or run.last_start_offset < behind.start_offset
        ):
            return
        if is_first or own.start_offset <= run.start_offset:
            own = behind
    if is_unclean and (not lines or run.epoch > lines[-1].epoch):
        out.info("leader-epochs-behind", path, f"epoch {run.epoch} is not in it yet: a recovery adds it")
        return
    line = own or (lines[-1] if lines else None)
    out.find(
        "leader-epoch",
        path,
        line.position if line is not None else env.size_bytes(path),
        f"batches from offset {run.start_offset} to {run.last_start_offset} are of epoch {run.epoch}",
        expected=f"epoch {run.epoch} from {run.start_offset} on",
        found="nothing" if line is None else f"{line.epoch} {line.start_offset}",
        mend=REMOVE,
    )
