"""Carries out what the findings of `verify` say mends them, as an operator would."""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import pkgutil
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from logdex.errors import StorageError
from logdex.io.env import Env
from logdex.layout.rocketmq import MESSAGE_HEAD
from tests.cli.helpers import run, run_json

Finding = dict[str, Any]
PROBLEMS_FOUND = 1
ROUNDS_MAX = 4
NOT_DONE_HERE = "nothing"
"""How mends begin that change nothing in the directory."""
PUT_AGAIN = "the message is in the log, logdex cat shows it: put it again"
"""How the mend begins after which the finding stays: the message that it is about is still
there."""


@dataclass
class Mending:
    """A harmed directory `root`, and `sound`, the same before it was harmed, which stands for a
    replica. `flags` are given to `verify`. Outputs of commands lie in `work`. `mends` are those
    that were carried out, `put_again` the messages that were put again. Without `has_replica`, what
    is said to do if there is none is done."""

    root: Path
    sound: Path
    work: Path
    flags: tuple[str, ...] = ()
    has_replica: bool = True
    mends: list[str] = field(default_factory=list)
    put_again: dict[int, dict[str, Any]] = field(default_factory=dict)
    _outputs: int = 0

    def verify(self) -> list[Finding]:
        """The findings."""
        code = PROBLEMS_FOUND if run("verify", self.root, *self.flags).exit_code else 0
        lines = run_json("verify", self.root, *self.flags, exit_code=code)
        found = [line for line in lines if "check" in line]
        if not self.has_replica:
            for finding in found:
                finding["mend"] = re.sub(".*; if there is none, (?=logdex )", "", finding["mend"])
        return found

    def mend(self) -> list[Finding]:
        """Carries out what is printed until nothing is left to do. Returns the findings that are
        left."""
        for _ in range(ROUNDS_MAX):
            left = self.verify()
            to_do = {finding["mend"]: finding for finding in left if not self._is_left(finding)}
            if not to_do:
                return left
            by_hand = [finding for mend, finding in to_do.items() if not mend.startswith("logdex ")]
            for finding in by_hand or list(to_do.values())[:1]:
                self.carry_out(finding)
        raise AssertionError(left)

    def _is_left(self, finding: Finding) -> bool:
        """Whether nothing is left to do about a finding."""
        mend = finding["mend"]
        return mend.startswith(NOT_DONE_HERE) or (mend.startswith(PUT_AGAIN) and _offset_of(finding) in self.put_again)

    def carry_out(self, finding: Finding) -> None:
        """Does what a finding says."""
        mend, path = finding["mend"], Path(finding["path"])
        assert mend, finding
        for pattern, action in _ACTIONS:
            found = re.match(pattern, mend)
            if found:
                self.mends.append(mend)
                action(self, path, finding, found)
                return
        raise AssertionError(f"nobody knows how to do this: {mend}")

    # -- what is done -----------------------------------------------------------------------------
    def command(self, _path: Path, finding: Finding, _found: re.Match[str]) -> None:
        """Runs a command, with a directory for DIR, and puts its output in place."""
        words = shlex.split(finding["mend"].partition("; ")[0])
        self._outputs += 1
        output = self.work / f"out-{self._outputs}"
        ended = run(*[str(output) if word == "DIR" else word for word in words[1:]])
        assert ended.exit_code in (0, 3), ended
        if words[1] == "recover":
            assert words[2] == str(self.root)
            shutil.rmtree(self.root)
            shutil.move(output, self.root)
            return
        for source in sorted(output.rglob("*")):
            target = self.root / source.relative_to(output)
            if source.is_file():
                target.parent.mkdir(parents=True, exist_ok=True)
        for name in ("consumequeue", "index"):  # whole directories of a store
            if (output / name).is_dir():
                _remove(self.root / name)
        for stale in self._stale(output):
            stale.unlink()
        shutil.copytree(output, self.root, dirs_exist_ok=True)

    def _stale(self, output: Path) -> list[Path]:
        """Kafka's derived files that the rebuild did not write, such as a .txnindex without
        entries."""
        suffixes = {".index", ".timeindex", ".txnindex", ".snapshot"}
        found = []
        for path in self.root.rglob("*.*"):
            folder = output / path.parent.relative_to(self.root)
            if path.suffix in suffixes and folder.is_dir() and not (folder / path.name).exists():
                found.append(path)
        return found

    def restore(self, path: Path, finding: Finding, _found: re.Match[str]) -> None:
        """Copies the file from the replica; for an index without its log, the log."""
        wanted = path
        if finding["mend"].startswith("restore the .log"):
            wanted = path.with_suffix(".log")
        sound = self.sound / wanted.relative_to(self.root)
        if not sound.exists():
            assert "if there is none, remove this file" in finding["mend"], finding
            path.unlink()
            return
        _remove(wanted)
        wanted.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(sound, wanted)

    def remove_line(self, path: Path, finding: Finding, _found: re.Match[str]) -> None:
        """Takes a line out of a checkpoint."""
        data = path.read_bytes()
        number = data[: finding["position"]].count(b"\n")
        lines = data.splitlines()
        del lines[number]
        lines[1] = b"%d" % (int(lines[1]) - 1)
        path.write_bytes(b"".join(line + b"\n" for line in lines))

    def remove(self, path: Path, _finding: Finding, _found: re.Match[str]) -> None:
        """Removes the file."""
        path.unlink()

    def move_away(self, path: Path, _finding: Finding, _found: re.Match[str]) -> None:
        """Moves what is there elsewhere."""
        (self.work / "away").mkdir(exist_ok=True)
        shutil.move(path, self.work / "away" / f"{len(self.mends)}-{path.name}")

    def empty(self, path: Path, _finding: Finding, _found: re.Match[str]) -> None:
        """Puts an empty file there."""
        _remove(path)
        path.touch()

    def copy(self, path: Path, _finding: Finding, found: re.Match[str]) -> None:
        """Copies the backup that is named."""
        [source] = shlex.split(found.group(1))
        shutil.copy(source, path)

    def put(self, path: Path, finding: Finding, found: re.Match[str]) -> None:
        """Puts the message again that `logdex cat` shows, unless the replica has another queue
        offset there."""
        offset, place = _offset_of(finding), finding["position"]
        sound = self.sound / path.relative_to(self.root)
        if sound.read_bytes()[place : place + 8] != path.read_bytes()[place : place + 8]:
            self.restore(path, finding, found)
            return
        [message] = run_json("cat", self.root, "--physical-offset", offset, "--limit", 1, *self.flags)
        lines = self.work / "again.jsonl"
        lines.write_text(json.dumps(message))
        [self.put_again[offset]] = run_json("put", self.root, "--file", lines, *self.flags)

    def let_read(self, path: Path, _finding: Finding, _found: re.Match[str]) -> None:
        """Gives the owner the right to read."""
        for each in (path, *path.rglob("*")):
            each.chmod(each.stat().st_mode | (0o700 if each.is_dir() else 0o600))

    def move(self, _path: Path, finding: Finding, _found: re.Match[str]) -> None:
        """Runs mv."""
        subprocess.run(shlex.split(finding["mend"]), check=True)


def _offset_of(finding: Finding) -> int:
    """The physical offset of the message that a finding about a queue offset is about."""
    return int(Path(finding["path"]).name) + int(finding["position"]) - MESSAGE_HEAD.offset_of("queue_offset")


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    elif path.exists():
        path.unlink()


Action = Callable[[Mending, Path, Finding, re.Match[str]], None]
_ACTIONS: list[tuple[str, Action]] = [
    (r"logdex (rebuild|recover) ", Mending.command),
    (r"restore (this file|the file|the \.log|the batch) from a replica", Mending.restore),
    (r"compare with a replica", Mending.restore),
    (r"restore the log's last segment first, if it was cut or lost; if not, remove this line", Mending.remove_line),
    (r"remove the file", Mending.remove),
    (r"move the (file out of the directory|checkpoint away)", Mending.move_away),
    (r"mv ", Mending.move),
    (PUT_AGAIN, Mending.put),
    (r"look at what it is, and move it away", Mending.move_away),
    (r"look at what it is, and put an empty file in its place", Mending.empty),
    (r"copy (.+) over it: the broker falls back on that", Mending.copy),
    (
        r"check (its owner, its mode and the disk|the disk and the (file's mode|mode of the directory))",
        Mending.let_read,
    ),
]


def unknown_mends(package: ModuleType) -> list[str]:
    """The mends in the source of a package that nobody here knows how to do."""
    found = set()
    for each in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        found |= set(_MendTexts(importlib.import_module(each.name)).texts())
    assert len(found) > 8, found
    known = [NOT_DONE_HERE, *(pattern for pattern, _ in _ACTIONS)]
    return sorted(text for text in found if not any(re.match(pattern, text) for pattern in known))


class _MendTexts:
    """The texts in the source of a module that are given as mends. X stands for what is put into
    them while the program runs."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module

    def texts(self) -> Iterator[str]:
        """Yields them; those that a variable or a call gives are found where they are written."""
        for node in ast.walk(ast.parse(inspect.getsource(self._module))):
            for given in self._given(node):
                yield from filter(None, self._texts(given))

    def _given(self, node: ast.AST) -> Iterator[ast.expr]:
        match node:
            case ast.keyword(arg="mend"):
                yield node.value
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if "mend" in name.lower():
                yield value
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)):
                yield from (value for name, value in zip(names, values, strict=True) if ast.unparse(name) == "mend")
            case ast.FunctionDef() if "mend" in node.name:
                yield from (each.value for each in ast.walk(node) if isinstance(each, ast.Return) and each.value)
            case ast.Call(func=ast.Attribute(attr="find_error"), args=[_, _, mend]):
                yield mend
            case ast.Call(func=ast.Name(), args=arguments):  # a function of the module may pass it on
                yield from (each for each in arguments if isinstance(each, ast.Name) and each.id.startswith("RESTORE"))

    def _texts(self, node: ast.expr) -> Iterator[str]:
        match node:
            case ast.Constant(value=str(text)):
                yield text
            case ast.JoinedStr(values=[first, *more]):
                rest = "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in more)
                yield from (f"{text}{rest}" for text in self._texts(first))
            case ast.FormattedValue(value=value):
                yield from self._texts(value)
            case ast.Name(id=name) if isinstance(getattr(self._module, name, None), str):
                yield getattr(self._module, name)
            case ast.IfExp(body=one, orelse=other) | ast.BoolOp(values=[one, other]):
                yield from self._texts(one)
                yield from self._texts(other)
            case ast.Attribute(attr="hint"):  # an error's, which tells a reader what to do, and not what mends a file
                yield ast.unparse(node)
            case ast.Dict(values=values) | ast.Call(func=ast.Attribute(attr="get"), args=values):
                for value in values:
                    yield from self._texts(value)


def let_mode_decide(monkeypatch: pytest.MonkeyPatch, operation: str, path: Path) -> None:
    """Lets an operation of `Env` refuse `path` while its mode says so. The superuser may read and
    list everything, so the mode is looked at here."""
    real = getattr(Env, operation)

    def asked(env: Env, name: str) -> Any:
        if name == str(path) and not path.stat().st_mode & 0o400:
            raise StorageError("its mode refuses that", path=name)
        return real(env, name)

    monkeypatch.setattr(Env, operation, asked)
