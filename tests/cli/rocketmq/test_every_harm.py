"""Cuts of every file of very small stores, and flips, each through all five commands.

What must hold, beyond `harm.check`: a harmed log gives a prefix, and a shorter one is said to be; a
harmed derived file takes nothing from `cat` and `rebuild`, invents nothing in `query`, and a cut
one is found by `verify`.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cli.harm import Run, flipped, harmed, tell
from tests.cli.rocketmq.harm import COMMANDS, Store, check, flips, unpack
from tests.cli.rocketmq.tiny_stores import TINY
from tests.examples import every, some

FLIPPED = [*TINY, "tiny-broker", "tiny-4.9.7"]
FLIPS, SEEDS = 50, 50
"""Flips of each of four stores per seed: 10,000 if all seeds are tried."""
PARTS = ["commitlog", "consumequeue", "index", "config", "checkpoint", "small"]
LOST_END = "the log's last messages are lost"
_MAY_DIFFER = re.compile("assumed messageDelayLevel|behind the log's end at|the log's newest is of")
_PLACE = re.compile(r"  at (\d+)  (\d+) B  ")
_UNGUARDED = ("lock", "abort", "abort.bak")
"""Files whose bytes say nothing that could be wrong, besides `config/*.bak`."""


pytestmark = pytest.mark.usefixtures("bounded_memory")


def part_of(store: Store, path: Path) -> str:
    name = store.name(path).split("/")[0]
    return name if name in PARTS else "small"


def lines_before(store: Store, path: Path, byte: int) -> list[str]:
    """What `cat` prints of the whole store before the message that holds a byte of a log file."""
    offset = int(path.name) + byte
    kept = []
    for line in store.whole["cat"].stdout.splitlines():
        place = _PLACE.search(line)
        assert place is not None
        if int(place[1]) + int(place[2]) > offset:
            break
        kept.append(line)
    return kept


def check_cut(store: Store, path: Path, size: int, command: str) -> None:
    harm, whole = f"{store.name(path)} cut to {size} bytes", store.whole[command]
    result = check(store, command, harm)
    told = tell(command, harm, result)
    if part_of(store, path) == "commitlog":
        is_made = size == 0 and path == max(path.parent.iterdir())  # as a broker makes its next file
        check_log_cut(store, path, size, command, result, told, is_made)
    elif command in ("cat", "rebuild"):
        assert result == whole or only_seconds_differ(result, whole), told
    elif command == "query":
        assert result.stdout == whole.stdout or result.exit_code == 1, told
    elif command == "verify":
        is_told = result.exit_code == 1 or f"{path.parent}" in result.stdout  # an unclean end explains what is lost
        assert is_told or path.name in _UNGUARDED or path.suffix == ".bak", told


def only_seconds_differ(result: Run, whole: Run) -> bool:
    """`rebuild` tells its time, and of a crashed store it writes a checkpoint, which depends on the
    one that is there. It tells of a delay level that no ConsumeQueue shows any more, and of
    messages behind the log's end that a harmed file names, which may be a loss."""
    outputs = [{name: data for name, data in run.output.items() if name != "checkpoint"} for run in (result, whole)]
    told = [[line for line in run.stderr.splitlines() if not _MAY_DIFFER.search(line)] for run in (result, whole)]
    exit_code = 3 if LOST_END in result.stderr else whole.exit_code
    return (result.exit_code, told[0], outputs[0]) == (exit_code, told[1], outputs[1])


def queues_of(result: Run) -> dict[str, bytes]:
    return {name: data for name, data in result.output.items() if name.startswith("consumequeue/")}


def check_log_cut(store: Store, path: Path, size: int, command: str, result: Run, told: str, is_made: bool) -> None:
    whole = store.whole[command]
    if command == "cat":
        is_prefix = result.stdout.splitlines() == lines_before(store, path, size)
        assert is_prefix or result.stdout == whole.stdout, told  # in a filler, a cut takes nothing
        assert result.exit_code == 1 or result.stdout == whole.stdout or is_made, told
    elif command == "query":
        assert set(result.stdout.splitlines()) <= set(whole.stdout.splitlines()), told
        assert result.exit_code == 1 or result.stderr or result.stdout == whole.stdout, told
    elif command == "rebuild":
        assert result.exit_code == 3 or result.output == whole.output or is_made, told
    elif command == "verify":
        # the only file of a log, cut in its zeros: nothing says how long it was
        assert result.exit_code == 1 or lines_before(store, path, size) == lines_before(store, path, 1 << 40), told


def check_flip(store: Store, path: Path, byte: int, mask: int, command: str) -> None:
    harm, whole = f"{store.name(path)} byte {byte} ^ {mask:#x}", store.whole[command]
    result = check(store, command, harm)
    told = tell(command, harm, result)
    if part_of(store, path) == "commitlog":
        if command == "cat":
            before = lines_before(store, path, byte)
            assert result.stdout.splitlines()[: len(before)] == before, told
            is_less = len(result.stdout.splitlines()) < len(whole.stdout.splitlines())
            assert result.exit_code == 1 or not is_less, told
    elif command == "cat":
        assert result == whole, told
    elif command == "rebuild" and part_of(store, path) == "index":
        # In so small a store one entry may be all that shows the version, which decides what an
        # IndexFile holds.
        assert queues_of(result) == queues_of(whole), told
    elif command == "rebuild":
        assert only_seconds_differ(result, whole), told
    elif command == "query":
        assert set(result.stdout.splitlines()) <= set(whole.stdout.splitlines()), told
    elif command == "verify" and part_of(store, path) == "consumequeue":
        assert result.exit_code == 1, told


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("name", TINY)
def test_many_cuts(name: str, part: str, tmp_path: Path) -> None:
    store = unpack(name, tmp_path)
    paths = [path for path in store.files if part_of(store, path) == part]
    assert paths
    for path in paths:
        data = path.read_bytes()
        for size in every(5, range(len(data))):
            with harmed(path, data[:size]):
                for command in COMMANDS:
                    check_cut(store, path, size, command)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", every(10, range(SEEDS)))
@pytest.mark.parametrize("name", FLIPPED)
def test_many_flips(name: str, seed: int, tmp_path: Path) -> None:
    store = unpack(name, tmp_path)
    for path, byte, mask in flips(store, FLIPS, seed):
        with harmed(path, flipped(path, byte, mask)):
            for command in COMMANDS:
                check_flip(store, path, byte, mask, command)


@pytest.mark.parametrize("name", TINY)
def test_some_cuts_and_flips(name: str, tmp_path: Path) -> None:
    store = unpack(name, tmp_path)
    for path in store.files:
        data = path.read_bytes()
        used = len(data.rstrip(b"\0"))
        for size in sorted({0, 1, 40, used // 2, used - 1} & set(range(len(data)))):
            with harmed(path, data[:size]):
                for command in some(COMMANDS, 3, first=size):
                    check_cut(store, path, size, command)
    for path, byte, mask in flips(store, 25, seed=100):
        with harmed(path, flipped(path, byte, mask)):
            for command in some(COMMANDS, 3, first=byte):
                check_flip(store, path, byte, mask, command)
