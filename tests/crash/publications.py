"""A command that publishes, killed before and after every change of the disk: what is left, and the
same command again.

"After" an operation is before the next one, whatever its kind, because a kill strikes before an
operation.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from logdex.formats import detect, format_of
from logdex.io.env import Env
from logdex.io.name_changes import STAGING_PREFIX
from logdex.jobs.journal import LOCK_NAME
from logdex.testing import Fault, FaultEnv, Killed
from tests.cli.helpers import run, run_json
from tests.crash.trees import Fresh, Tree, tree

PUBLISHING = frozenset({"rename", "link", "exchange", "remove", "remove_tree", "sync", "sync_dir", "lock_file"})
EVERY_KILL = pytest.mark.parametrize(
    "every", [200, pytest.param(1, marks=[pytest.mark.slow, pytest.mark.timeout(1200)])]
)
"""Of the kills before publishing begins, each or only some."""

KILLS_MAX = 3
DATED = re.compile(r"\.\d{8}T\d{6}Z(\.\d+)?")


@dataclass(frozen=True)
class Publication:
    """A command: `start` fills an empty directory and returns where the command will publish, `run`
    runs it there and returns its report as one comparable value. `marks` vouch for other files, and
    so may be missing meanwhile. Power is not cut where workers write that `FaultEnv` does not
    see. `check_order` gets what a kill left and what a whole run makes, where files vouch for
    others. Files that `may_be_empty` holds for may be so meanwhile."""

    start: Callable[[Path], Path]
    run: Callable[[Path, Env], object]
    marks: tuple[str, ...] = ()
    has_power_cuts: bool = True
    check_order: Callable[[Tree, Tree], None] | None = None
    may_be_empty: Callable[[str], bool] = lambda name: False


class OldDiskEnv(FaultEnv):
    """On a file system that has no second names for files and cannot exchange names."""

    def link(self, source: str, target: str) -> bool:
        return False

    def exchange(self, one: str, other: str) -> bool:
        return False


def undated(files: Tree) -> Counter[tuple[str, bytes | None]]:
    """A tree with the same mark in place of every date in its names."""
    return Counter((DATED.sub(".kept", path), data) for path, data in files.items())


def _is_left_over(path: str) -> bool:
    return any(part.startswith((STAGING_PREFIX, LOCK_NAME)) for part in path.split("/"))


def kills_of(log: list[tuple[str, str]], every: int) -> list[int]:
    """The operations at which a run with these operations is killed: from the journal on those
    before and after every change of the disk, and some of the others. Where not every one is asked
    for, some of many."""
    begin = max(
        (at for at, (kind, path) in enumerate(log, 1) if kind == "sync" and path.endswith(LOCK_NAME)), default=1
    )
    kills = {at for at in range(1, len(log) + 1) if at % every == 0}
    changes = [at for at, (kind, _) in enumerate(log, 1) if kind in PUBLISHING and at >= begin]
    step = 1 if every == 1 else max(len(changes) // KILLS_MAX, 1)
    for at in changes[::step] + changes[-3:]:
        kills |= {at, at + 1}
    return sorted(kills & set(range(1, len(log) + 1)))


def check_killed(
    publication: Publication, fresh: Fresh, every: int, env_of: type[FaultEnv] = FaultEnv, *, may_miss: bool = False
) -> None:
    """Kills the command at its operations, checks what is left, and runs it again; then the same
    after a power cut. With `may_miss`, a name may be missing in what is left."""
    folder = fresh()
    target = publication.start(folder)
    before = _tree(target)
    env = env_of(str(folder))
    told = publication.run(folder, env)
    done = tree(target)
    assert [path for path in done if _is_left_over(path)] == []
    for at in kills_of(env.log, every):
        folder = fresh()
        target = publication.start(folder)
        killed = env_of(str(folder), Fault(at))
        with pytest.raises(Killed):
            publication.run(folder, killed)
        killed.release()
        left = folder.parent / f"left-{at}"
        if publication.has_power_cuts:
            killed.survivor(str(left), seed=at)
        for root in (left, folder) if publication.has_power_cuts else (folder,):
            try:
                left_in = root / target.relative_to(folder)
                _check_left(left_in, publication, before, done, may_miss=may_miss)
                if publication.check_order is not None:
                    publication.check_order(_tree(left_in), done)
                if undated(_tree(left_in)) != undated(done):  # else the kill came when all was done
                    assert publication.run(root, env_of(str(root))) == told
                    assert undated(tree(left_in)) == undated(done)
            except Exception as error:
                error.add_note(
                    f"killed at {at} {env.log[at - 1]} after {env.log[at - 2]}{', power cut' * (root == left)}"
                )
                raise
        shutil.rmtree(left, ignore_errors=True)


def _tree(target: Path) -> Tree:
    return tree(target) if target.exists() else {}


def _check_left(target: Path, publication: Publication, before: Tree, done: Tree, *, may_miss: bool) -> None:
    """Each file is the old or the new one, and what was there is somewhere."""
    left = _tree(target)
    for name in before.keys() | done.keys():
        is_folder = before.get(name, b"") is None or done.get(name, b"") is None
        if not DATED.search(name) and not is_folder:
            allowed = [before.get(name, "absent"), done.get(name, "absent")]
            allowed += [b""] if publication.may_be_empty(name) else []
            is_there = not may_miss and name not in publication.marks
            assert left.get(name, "absent") in allowed if is_there else left.get(name, allowed[0]) in allowed, name
    wanted, there = Counter(before.values()), Counter(left.values())
    del wanted[None]
    assert not wanted - there, "something that was there is nowhere"


def killed_while_publishing(publication: Publication, folder: Path) -> Path:
    """What is left where the command was killed half-way through its changes of names."""
    (folder / "usual").mkdir()
    publication.start(folder / "usual")
    env = FaultEnv(str(folder / "usual"))
    publication.run(folder / "usual", env)
    begin = max(at for at, (kind, path) in enumerate(env.log, 1) if kind == "sync" and path.endswith(LOCK_NAME))
    changes = [at for at, (kind, _) in enumerate(env.log, 1) if kind in ("rename", "exchange") and at > begin]
    (folder / "killed").mkdir()
    target = publication.start(folder / "killed")
    killed = FaultEnv(str(folder / "killed"), Fault(changes[len(changes) // 2]))
    with pytest.raises(Killed):
        publication.run(folder / "killed", killed)
    killed.release()
    return target


def check_named_and_mended(publication: Publication, folder: Path) -> Path:
    """`info` and `verify` name what was broken off, and the mend that `verify` prints is executed.
    Returns where."""
    target = killed_while_publishing(publication, folder)
    found = detect(str(target))
    own = format_of(found)
    problems = own.overview(found, {}, env=Env()).problems
    assert [text for text in problems if "was killed while it published" in text] != []
    (finding,) = [
        each for each in own.verify(found, {}, max_findings=99).findings if each.check == "unfinished-publication"
    ]
    assert finding.path == f"{target}/{LOCK_NAME}"
    assert finding.mend.startswith("logdex re")
    done = subprocess.run(
        [sys.executable, "-m", *finding.mend.split()], capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode in (0, 3), done.stderr
    assert "was killed while it published: what it had published was undone" in done.stderr + done.stdout
    assert [each.check for each in own.verify(detect(str(target)), {}, max_findings=99).findings] == []
    assert not any("was killed" in text for text in own.overview(found, {}, env=Env()).problems)
    assert not [path for path in tree(target) if _is_left_over(path)]
    return target


def type_the_mend(path: Path) -> None:
    """Types the mend that `verify` prints for the unfinished publication at `path`."""
    [found] = [row for row in run_json("verify", path, exit_code=1) if row.get("check") == "unfinished-publication"]
    words = shlex.split(found["mend"])
    assert (words[0], words[2]) == ("logdex", str(path))
    assert run(*words[1:]).exit_code in (0, 3)
