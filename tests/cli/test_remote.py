"""Commands on a path with a scheme: those that only read print what they print of the same
directory on this machine, those that derive files write them to this machine, and nothing is
written to such a path."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from tests import remote
from tests.cli.helpers import run
from tests.directories import contents
from tests.examples import cases

COUNT = "SELECT topic, count(*) FROM {} GROUP BY ALL ORDER BY ALL"
OF_BOTH = [("info",), ("info", "--json", "--store"), ("verify", "--json"), ("stats", "--json")]
OF_STORES = [
    ("cat", "--json"),
    ("get", "--topic", "Orders", "--queue", "0", "--offset", "0"),
    ("query", "--topic", "Orders", "--key", "order-0"),
    ("sql", COUNT.format("messages"), "--json"),
]
OF_LOGS = [
    ("cat", "--json"),
    ("get", "--topic", "orders", "--partition", "0", "--offset", "3"),
    ("query", "--topic", "orders", "--key", "key-1"),
    ("sql", COUNT.format("records"), "--json"),
]
WRITES = [
    (("rebuild",), ("rebuild",)),
    (("recover",), ("recover",)),
    (("dispatch",), ("dispatch",)),
    (("export",), ("export",)),
    (("convert", "--to", "kafka"), ("convert", "--to", "rocketmq")),
    (("filter",), ("filter",)),
]


@pytest.fixture(params=["store", "logs"])
def pair(
    request: pytest.FixtureRequest, golden_store: Callable[..., Path], golden_log: Callable[[str], Path]
) -> Iterator[tuple[Path, str]]:
    """A directory, and the address of its copy."""
    root = golden_store("tiny-broker") if request.param == "store" else golden_log("tiny-broker")
    with remote.in_memory(root, f"cli-{request.param}") as url:
        yield root, url


def said(root: object, command: str, *more: str) -> tuple[int, str, str]:
    """How a command ended and what it said, without what differs from run to run."""
    code, out, errors = run(command, root, *more)
    texts = (re.sub(r'("seconds": ?|, )[\d.]+( s)?', "TIME", text.replace(str(root), "PATH")) for text in (out, errors))
    return code, *texts  # type: ignore[return-value]


def test_what_only_reads(pair: tuple[Path, str]) -> None:
    root, url = pair
    for arguments in [*OF_BOTH, *(OF_STORES if "store" in url else OF_LOGS)]:
        expected = said(root, *arguments)
        assert expected[0] != 2
        assert said(url, *arguments) == expected


@pytest.mark.parametrize("case", cases(range(len(WRITES)), len(WRITES)))
def test_what_derives_files(pair: tuple[Path, str], tmp_path: Path, case: int) -> None:
    root, url = pair
    command, *more = WRITES[case]["logs" in url]
    ends = {}
    for name, path in (("here", root), ("there", url)):
        ends[name] = run(command, path, *more, "--output", tmp_path / name)
    assert ends["here"].exit_code == ends["there"].exit_code, ends["there"]
    here, there = (files(tmp_path / name) for name in ("here", "there"))
    assert here.keys() == there.keys()
    assert here == there


def files(root: Path) -> dict[str, str]:
    """The checksums of what is written, without what names the source or the moment: a difference
    between large files is too long to be shown."""
    moment = rb'("timestamp":)\d+'
    return {
        name: sha256(re.sub(moment, rb"\1", data) if ".json" in name else data).hexdigest()
        for name, data in contents(root).items()
        if not name.startswith((".", "_"))
    }


def test_what_would_write_there(pair: tuple[Path, str]) -> None:
    root, url = pair
    for arguments in (
        ("rebuild", url, "--in-place"),
        ("rebuild", root, "--output", f"{url}-rebuilt"),
        ("export", root, "--output", f"{url}-lake"),
    ):
        ended = run(*arguments)
        assert ended.exit_code == 2, arguments
        assert "remote file systems are only read" in ended.stderr
        assert "write to a local path" in ended.stderr
