"""Compares `leader-epoch-checkpoint` with the leader epochs of the batches.

The checkpoint of a sound log may also hold epochs without batches, and it begins at the log start
offset.
"""

from __future__ import annotations

from typing import NamedTuple

from logdex.errors import CorruptError, UnreadableError
from logdex.io.env import Env
from logdex.kafka.files.checkpoints import checked_number, malformed, read_checkpoint_lines
from logdex.kafka.state.epoch_runs import EpochRun, EpochRuns
from logdex.kafka.verify.checks import RESTORE_EPOCH, Collector
from logdex.primitives.shown import counted


class _Line(NamedTuple):
    """An entry of the checkpoint, and the position of the first byte of its line."""

    epoch: int
    start_offset: int
    position: int


def check_epochs(
    path: str, runs: EpochRuns, out: Collector, env: Env, *, log_start_offset: int, is_unclean: bool
) -> None:
    """Reports findings for the checkpoint at `path`, and for batches whose leader epoch does not
    fit between those of their neighbours.

    The checkpoint need not hold epochs that end below the log start offset. That may have been
    higher than `log_start_offset`: a broker notes it once a minute only, and a partition that was
    copied alone has none. So the start offset of the checkpoint's first line is used if it is
    higher, and what it leaves out is information. `is_unclean`: epochs may be missing at the end.
    """
    believed, harmed = runs.sort_out()
    for run in harmed:
        out.find(
            "batch-leader-epoch",
            run.path,
            run.position,
            "a batch's leader epoch does not lie between its neighbours'",
            expected="that of the batches around it",
            found=run.epoch,
            mend=RESTORE_EPOCH,
        )
    if not env.exists(path):
        if believed:
            out.info("no-leader-epochs", path, "there is no such file: a broker derives it from the log")
        return
    out.files += 1
    try:
        lines = _read(path, env)
    except (CorruptError, UnreadableError) as error:
        out.find_error("leader-epoch-malformed", error, out.rebuild)
        return
    begin = log_start_offset
    if lines:
        begin = max(begin, lines[0].start_offset)
        untold = [run for run in believed if log_start_offset <= run.last_offset < begin]
        if untold:
            message = (
                f"nothing is told of {len(untold)} epochs before offset {begin}: their records were deleted, or lines"
            )
            out.info("leader-epochs-later", path, message + " are lost")
    latest, back = -1, list[EpochRun]()
    for run in believed:
        if run.last_offset < begin:
            continue
        if run.epoch < latest:
            back.append(run)
            continue
        latest = run.epoch
        first, last = max(run.start_offset, begin), max(run.last_start_offset, begin)
        _check_run(path, run, (first, last), lines, out, env, is_unclean=is_unclean)
    _tell_going_back(back, out)


def _tell_going_back(runs: list[EpochRun], out: Collector) -> None:
    """Reports, as information, batches of an earlier epoch than those before them. A broker reads
    them, and its recovery writes a checkpoint that does not tell of them."""
    if runs:
        first, more = runs[0], counted(len(runs) - 1, "more time", "more times")
        again = f", and {more} they go back" if len(runs) > 1 else ""
        message = f"batches from offset {first.start_offset} to {first.last_start_offset} are of leader epoch "
        message += f"{first.epoch}, behind later ones{again}: they may be of another log"
        out.info("leader-epochs-back", first.path, message)


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


def _check_run(
    path: str, run: EpochRun, span: tuple[int, int], lines: list[_Line], out: Collector, env: Env, *, is_unclean: bool
) -> None:
    """Reports a finding unless the lines that cover `span` have the run's epoch. `span` holds the
    base offsets of the run's first and last batch."""
    first, last = span
    own = next((line for line in lines if line.epoch == run.epoch), None)
    if own is not None and own.start_offset <= first:
        behind = next((line for line in lines if line.epoch > run.epoch), None)
        if behind is None or last < behind.start_offset:
            return
        own = behind
    if is_unclean and (not lines or run.epoch > lines[-1].epoch):
        out.info("leader-epochs-behind", path, f"epoch {run.epoch} is not in it yet: a recovery adds it")
        return
    line = own or (lines[-1] if lines else None)
    out.find(
        "leader-epoch",
        path,
        line.position if line is not None else env.size_bytes(path),
        f"batches from offset {first} to {last} are of epoch {run.epoch}",
        expected=f"epoch {run.epoch} from {first} on",
        found="nothing" if line is None else f"{line.epoch} {line.start_offset}",
        mend=out.rebuild,
    )
