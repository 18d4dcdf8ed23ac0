"""`logdex warm-up`, and what the first command shows where it was not called."""

from __future__ import annotations

import ast
import importlib.util
import os
import pkgutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from logdex import kernels
from logdex.cli.rows.in_bulk import SMALL_BYTES
from logdex.kafka import Log
from logdex.kafka.rebuild import rebuild
from logdex.rocketmq import MessageStore
from tests.cli.test_terminal import Terminal
from tests.conftest import GoldenStore

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

COMMANDS = (
    ("verify", "{store}"),
    ("rebuild", "{store}", "--output", "{output}"),
    ("recover", "{store}", "--output", "{output}"),
    ("stats", "{store}"),
    ("export", "{store}", "--output", "{output}"),
    ("convert", "{store}", "--to", "kafka", "--output", "{output}"),
    ("verify", "{logs}"),
    ("rebuild", "{logs}", "--output", "{output}", "--key-index"),
    ("recover", "{logs}", "--output", "{output}"),
    ("stats", "{logs}"),
    ("export", "{logs}", "--output", "{output}"),
    ("convert", "{logs}", "--to", "rocketmq", "--output", "{output}"),
    ("cat", "{large_store}"),
    ("cat", "{large_store}", "--json", "--decompress"),
    ("cat", "{large_store}", "--where", "queue_offset > 10", "--grep", "tag-1"),
    ("cat", "{large_logs}"),
    ("cat", "{large_logs}", "--json", "--isolation-level", "read_committed"),
    ("cat", "{large_logs}", "--where", "offset > 10", "--grep", "key-1"),
    ("get", "{large_store}", "--topic", "orders", "--queue", "0", "--offset", "0", "--tag", "tag-1"),
    ("get", "{large_logs}/orders-0", "--offset", "100"),
    ("query", "{large_store}", "--topic", "orders", "--key", "key-1"),
    ("query", "{large_logs}/orders-0", "--key", "key-1"),
    ("sql", "{large_store}", "SELECT topic, tags, count(*) FROM messages WHERE queue_offset > 10 GROUP BY ALL"),
    ("sql", "{large_store}", "SELECT * FROM message_keys WHERE topic = 'orders' AND key = 'key-1'"),
    ("sql", "{large_store}", "SELECT count(*) FROM index_entries"),
    ("sql", "{large_logs}", 'SELECT topic, count(DISTINCT key) FROM records WHERE "offset" > 10 GROUP BY ALL'),
    ("sql", "{large_logs}", "SELECT * FROM records WHERE topic = 'orders' AND key = 'key-1'"),
    ("sql", "{large_logs}", "SELECT count(*) FROM index_entries"),
    ("filter", "{large_store}", "--grep", "tag-1", "--output", "{output}"),
    ("filter", "{large_logs}", "--grep", "key-1", "--output", "{output}"),
    ("dispatch", "{large_store}", "--output", "{output}"),
    ("dispatch", "{large_logs}", "--output", "{output}"),
    ("import", "{messages}", "--format", "rocketmq", "--output", "{output}"),
    ("import", "{records}", "--format", "kafka", "--output", "{output}"),
    ("put", "{output}", "--create", "rocketmq", "--topic", "T", "--body", "x"),
    ("put", "{output}/T-0", "--create", "kafka", "--value", "x"),
    ("consume", "{large_store}", "--topic", "orders", "--group", "G", "--limit", "9"),
    ("consume", "{large_logs}", "--topic", "orders", "--group", "G", "--limit", "9"),
)

_COMMAND = """
from logdex.cli import main
from logdex.kernels import compiled

compiled.PLAIN_WORK_US_MAX = {plain_us}
main()
"""


def logdex(folder: Path, *arguments: str, plain_us: int = 0) -> str:
    """Runs a command in a process of its own, whose compiled kernels are in `folder`. Work that
    takes no longer than `plain_us` may be done without kernels."""
    environ = {**os.environ, "XDG_CACHE_HOME": str(folder)}
    environ.pop("NUMBA_CACHE_DIR", None)
    command = [sys.executable, "-c", _COMMAND.format(plain_us=plain_us), *arguments]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 3), done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout


def compiled(folder: Path) -> set[str]:
    return {str(path) for path in folder.rglob("*.nbc")}


def names_of_compiled(folder: Path) -> set[str]:
    """The compiled kernels, as ``rocketmq/message_scan.scan_window``."""
    return {f"{path.parent.name.partition('_')[0]}/{path.name.partition('-')[0]}" for path in folder.rglob("*.nbc")}


def all_kernels() -> set[str]:
    """The names of all functions that are compiled by themselves."""
    found = set()
    for each in pkgutil.walk_packages(kernels.__path__, f"{kernels.__name__}."):
        tree = ast.parse(Path(importlib.util.find_spec(each.name).origin).read_text("utf-8"))  # type: ignore[arg-type, union-attr]
        for function in ast.walk(tree):
            if not isinstance(function, ast.FunctionDef):
                continue
            if [*map(ast.unparse, function.decorator_list)] in (["kernel"], ["inner_kernel"]):
                _, _, family, module = each.name.split(".")
                found.add(f"{family}/{module}.{function.name}")
    return found


@pytest.fixture
def places(golden_store: GoldenStore, golden_log: GoldenStore, tmp_path: Path) -> dict[str, Path]:
    """What `COMMANDS` read. The large ones are printed in bulk."""
    rows = range(SMALL_BYTES // 1000)
    bodies = [b"%d" % row + b"x" * 1000 for row in rows]
    keys, tags = [f"key-{row % 1000}" for row in rows], [f"tag-{row % 3}" for row in rows]
    places = {name: tmp_path / name for name in ("large_store", "large_logs")}
    with MessageStore.open(places["large_store"], mapped_file_size_commit_log=1 << 20, max_index_num=3_000) as store:
        store.put_columns(pa.table({"topic": ["orders"] * len(rows), "keys": keys, "tags": tags, "body": bodies}))
        store.wait_dispatched()
    with Log.open(places["large_logs"] / "orders-0", segment_bytes=1 << 20) as log:
        log.append_columns(pa.table({"key": [key.encode() for key in keys], "value": bodies}), batch_records=100)
    rebuild(places["large_logs"], places["large_logs"], key_index=True, in_place=True, sync=False)
    for name, content in (("messages", "body"), ("records", "value")):
        places[name] = tmp_path / f"{name}.parquet"
        pq.write_table(pa.table({"topic": ["orders"] * len(rows), content: bodies}), places[name])
    return {"store": golden_store("tiny-5.5.0"), "logs": golden_log("tiny-broker"), **places}


def test_nothing_is_compiled_behind_it(places: dict[str, Path], tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    assert logdex(kept, "warm-up").startswith("Compiled ")
    before = compiled(kept)
    assert all_kernels() == names_of_compiled(kept)
    assert logdex(kept, "warm-up") == "Nothing to do: all kernels are compiled.\n"
    for number, command in enumerate(COMMANDS):
        logdex(kept, *(part.format(output=tmp_path / str(number), **places) for part in command))
        assert compiled(kept) == before, command


SCAN = {
    "store": {"rocketmq/message_scan", "rocketmq/java_hash", "rocketmq/name_table", "rocketmq/property_text"}
    | {"common/crc", "common/utf8"},
    "logs": {"kafka/batch_scan", "kafka/varint", "common/crc", "common/crc32c"},
}
"""The modules with the kernels that find messages or batches, by what is read."""

ROWS = {
    "store": SCAN["store"] | {"rocketmq/message_gather", "rocketmq/property_columns"},
    "logs": SCAN["logs"] | {"kafka/record_decode", "kafka/decompress"},
}
"""Those that make columns of them, too."""

TEXT = {f"common/{module}" for module in ("cells", "digits", "json_text", "line_text", "rows", "utf8", "vectors")}
INDEXES = {"store": {"rocketmq/index_put", "rocketmq/queue_runs"}, "logs": {"kafka/sparse_index"}}

NEEDED: dict[tuple[str, ...], set[str]] = {
    ("--help",): set(),
    ("info", "{store}"): set(),
    ("info", "{logs}"): set(),
    ("get", "{store}", "--topic", "TopicA", "--queue", "0", "--offset", "0"): set(),
    ("get", "{logs}/orders-0", "--offset", "0"): set(),
    ("cat", "{store}", "--limit", "10"): set(),
    ("cat", "{logs}", "--limit", "10"): set(),
    ("cat", "{large_store}"): ROWS["store"] | TEXT,
    ("cat", "{large_logs}", "--json"): ROWS["logs"] | TEXT,
    ("verify", "{large_store}"): SCAN["store"] | INDEXES["store"] | {"rocketmq/property_crc"},
    ("verify", "{large_logs}"): ROWS["logs"] | INDEXES["logs"] | {"kafka/key_index", "kafka/xxh64"},
    ("rebuild", "{large_store}", "--output", "{output}"): SCAN["store"] | INDEXES["store"],
    ("rebuild", "{large_logs}", "--output", "{output}"): SCAN["logs"] | INDEXES["logs"],
    ("recover", "{large_store}", "--output", "{output}"): SCAN["store"] | INDEXES["store"] | {"rocketmq/property_crc"},
    ("recover", "{large_logs}", "--output", "{output}"): SCAN["logs"] | INDEXES["logs"],
    ("stats", "{large_store}"): ROWS["store"],
    ("stats", "{large_logs}"): ROWS["logs"],
    ("export", "{large_store}", "--output", "{output}"): ROWS["store"],
    ("export", "{large_logs}", "--output", "{output}"): ROWS["logs"],
}
"""The modules whose kernels a command may call."""


@pytest.mark.parametrize("command", NEEDED, ids=" ".join)
def test_only_what_a_command_needs_is_compiled(
    command: tuple[str, ...], places: dict[str, Path], tmp_path: Path
) -> None:
    """A small command may do all of its work without kernels, however slow the machine is."""
    arguments = [part.format(output=tmp_path / "output", **places) for part in command]
    needed = NEEDED[command]
    logdex(tmp_path / "kept", *arguments, plain_us=0 if needed else 60_000_000)
    modules = {name.partition(".")[0] for name in names_of_compiled(tmp_path / "kept")}
    assert modules <= needed
    assert bool(modules) == bool(needed)


def test_the_first_command_says_what_takes_so_long(golden_store: GoldenStore, tmp_path: Path) -> None:
    terminal = Terminal()
    environ = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "kept"), "COLUMNS": "200", "TERM": "xterm"}
    environ.pop("NUMBA_CACHE_DIR", None)
    command = [sys.executable, "-m", "logdex", "verify", str(golden_store("tiny-5.5.0"))]
    done = subprocess.run(command, env=environ, stdout=subprocess.PIPE, stderr=terminal.file, check=False)
    assert done.stdout.splitlines()[-1].startswith(b"No findings")
    assert "compiling for this machine, once: " in terminal.text
