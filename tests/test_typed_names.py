"""What type checkers know of the public names: mypy checks these programs, and what the pages show,
with all other sources. Here these programs run, and pyright checks what the pages show."""

from __future__ import annotations

import dataclasses
import inspect
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any, assert_type

import pyarrow as pa
import pytest

import logdex
import logdex.kafka
import logdex.kafka.rebuild
import logdex.kafka.recover
import logdex.kafka.verify
import logdex.rocketmq
import logdex.rocketmq.rebuild
import logdex.rocketmq.recover
import logdex.rocketmq.verify
import logdex.spark
import logdex.sql
from logdex.errors import UsageError
from logdex.kafka import (
    AppendInfo,
    KafkaLogDir,
    LoadReport,
    Log,
    LogDirSnapshot,
    LogReader,
    PartitionSnapshot,
    Record,
    RecordBatch,
)
from logdex.kafka.read.record_scan import KafkaScan
from logdex.rocketmq import (
    CommitLog,
    ConsumeQueue,
    Consumer,
    ConsumerOffsetManager,
    GetColumnsResult,
    GetMessageResult,
    GetMessageStatus,
    IndexService,
    LocalFileOffsetStore,
    Message,
    MessageStore,
    PutMessageResult,
    PutMessageStatus,
    QueryMessageResult,
    QueueInfo,
    StoreCheckpoint,
    StoredMessage,
    StoreSnapshot,
    StoreStats,
)
from logdex.rocketmq.read.message_scan import LogScan
from tests.docs.pages import blocks_of_pages
from tests.golden.archives import ROOT

SIZES: dict[str, Any] = {
    "mapped_file_size_commit_log": 4096,
    "mapped_file_size_consume_queue": 200,
    "max_hash_slot_num": 7,
}
PROGRAM = """
from pathlib import Path
import logdex
from logdex.rocketmq import Consumer, Message, MessageStore, PutMessageStatus
from logdex.kafka import Log, Record

with MessageStore.open(Path("store")) as store:
    reveal_type(store)
    put = store.put_message(Message("orders", b"paid", keys="order-17"))
    reveal_type(put)
    reveal_type(put.status)
    assert put.status is PutMessageStatus.PUT_OK
    with Consumer(store, "billing", "orders") as consumer:
        messages = consumer.poll()
        reveal_type(messages)
        reveal_type(messages[0].body)
with Log.open(Path("events-0")) as log:
    reveal_type(log.append([Record(value=b"v")]))
Message(topic=7)
logdex.open("store", max_indx_num=3)
MessageStore.open("store", flsuh="sync")
Log.open("events-0", flsuh="sync")
Log.open("events-0", flush="always")
"""
REVEALED = [
    "logdex.rocketmq.message_store.message_store.MessageStore",
    "logdex.rocketmq.message_store.put.message.PutMessageResult",
    "logdex.rocketmq.message_store.put.message.PutMessageStatus",
    "list[logdex.rocketmq.message.stored_message.StoredMessage]",
    "bytes",
    "logdex.kafka.log.append.AppendInfo",
]


HOMES = (
    *(logdex, logdex.rocketmq, logdex.kafka, logdex.sql, logdex.spark),
    *(logdex.kafka.verify, logdex.kafka.rebuild, logdex.kafka.recover),
    *(logdex.rocketmq.verify, logdex.rocketmq.rebuild, logdex.rocketmq.recover),
)
LABELS = {"IndexHeader.unpack", "LoadReport.note", "StoreCheckpoint.unpack"}
"""They take a text for errors and reports to show, not a path to open."""


def test_a_program_with_a_message_store(tmp_path: Path) -> None:
    root = tmp_path / "store"
    with MessageStore.open(root, background=False, **SIZES) as store:
        assert_type(store, MessageStore)
        put = assert_type(store.put_message(Message("orders", b"paid", keys="k", queue_id=0)), PutMessageResult)
        assert assert_type(put.status, PutMessageStatus).name == "PUT_OK"
        assert store.wait_dispatched()
        found = assert_type(store.get_message("orders", 0, 0), GetMessageResult)
        assert assert_type(found.status, GetMessageStatus).name == "FOUND"
        assert assert_type(store.get_columns("orders", 0, 0), GetColumnsResult).table.num_rows == 1
        assert len(assert_type(store.query_message("orders", "k"), QueryMessageResult).messages) == 1
        assert len(assert_type(store.queues(), list[QueueInfo])) == 1
        assert assert_type(store.topics(), dict[str, list[int]]) == {"orders": [0]}
        assert [assert_type(each, StoredMessage).body for each in store] == [b"paid"]
        assert len(assert_type(store.query("orders", "k"), list[StoredMessage])) == 1
        assert len(list(assert_type(store.scan("orders", limit=1), LogScan))) == 1
        assert assert_type(store.to_arrow(["body"]), pa.RecordBatchReader).read_all().num_rows == 1
        assert assert_type(store.stats, StoreStats).puts == 1
        with Consumer(store, "billing", "orders") as consumer:
            messages = assert_type(consumer.poll(), list[StoredMessage])
            assert assert_type(messages[0].body, bytes) == b"paid"
            consumer.commit()
    manager = assert_type(ConsumerOffsetManager(root), ConsumerOffsetManager)
    assert manager.query_offset("billing", "orders", 0) == 1
    assert StoreCheckpoint.read(root / "checkpoint").min_timestamp_ms >= 0
    with (
        StoreSnapshot(root) as snapshot,
        CommitLog.of_store(root) as log,
        IndexService(root / "index", snapshot.config) as index,
    ):
        assert log.min_offset == snapshot.commit_log.min_offset == 0
        assert [assert_type(each, StoredMessage).body for each in snapshot] == [b"paid"]
        assert len(assert_type(snapshot.query("orders", "k"), list[StoredMessage])) == 1
        assert assert_type(snapshot.to_arrow(), pa.RecordBatchReader).read_all().num_rows == 1
        assert len(index.files) == 1
    assert ConsumeQueue(root / "consumequeue" / "orders" / "0", b"orders", 0).max_offset == 1
    offsets = LocalFileOffsetStore(tmp_path / "offsets.json")
    with Consumer(root, "all", "orders", mode="broadcasting", offset_store=offsets) as reader:
        assert len(reader.poll()) == 1


def test_a_program_with_a_log(tmp_path: Path) -> None:
    path = tmp_path / "events-0"
    with Log.open(path) as log:
        assert assert_type(log.append([Record(value=b"v")]), AppendInfo).first_offset == 0
        assert_type(log.load_report, LoadReport)
        assert [assert_type(each, Record).value for each in log] == [b"v"]
        assert assert_type(log.query("k"), list[Record]) == []
        assert_type(log.scan(offset=0), KafkaScan[PartitionSnapshot])
        assert assert_type(log.to_arrow(["value"]), pa.RecordBatchReader).read_all().num_rows == 1
    with PartitionSnapshot(path) as partition, LogDirSnapshot(tmp_path) as logs:
        assert [assert_type(each, Record).value for each in partition] == [b"v"]
        assert [assert_type(each, Record).value for each in logs] == [b"v"]
        assert assert_type(logs.query("events", "k"), list[Record]) == []
        assert assert_type(logs.query_items("events", "k"), list[tuple[PartitionSnapshot, Record]]) == []
        assert assert_type(logs.topics(), dict[str, list[int]]) == partition.topics() == {"events": [0]}
        assert assert_type(logs.to_arrow(), pa.RecordBatchReader).read_all().num_rows == 1
    with LogReader(path, "billing") as reader:
        assert len(assert_type(reader.poll(), list[Record])) == 1
    assert_type(KafkaLogDir(tmp_path), KafkaLogDir)
    assert RecordBatch.__name__ == "RecordBatch"


def test_a_misspelt_setting_is_found(tmp_path: Path) -> None:
    """When the program runs, and by mypy: it reports a comment that ignores no error."""
    with MessageStore.open(tmp_path / "store") as store, Log.open(tmp_path / "events-0") as log:
        wrong: list[tuple[Callable[[], object], str]] = [
            (lambda: MessageStore.open(store.path, flsuh="sync"), "flush"),  # type: ignore[call-arg]
            (lambda: Log.open(log.path, flsuh="sync"), "flush"),  # type: ignore[call-arg]
            (lambda: StoreSnapshot(store.path, max_index_nun=7), "max_index_num"),  # type: ignore[call-arg]
            (lambda: logdex.open_store(store.path, max_index_nun=7), "max_index_num"),  # type: ignore[call-arg]
            (lambda: logdex.open(store.path, max_index_nun=7), "max_index_num"),  # type: ignore[call-arg]
        ]
        for call, meant in wrong:
            with pytest.raises(UsageError, match=f"did you mean {meant}"):
                call()


def public_functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    for package in HOMES:
        for name in package.__all__:
            value = getattr(package, name)
            if not inspect.isclass(value):
                if inspect.isroutine(value):
                    yield name, value
                continue
            for part, function in inspect.getmembers(value, inspect.isroutine):
                is_own = part == "__init__" and not dataclasses.is_dataclass(value)  # those are results and reports
                if (is_own or not part.startswith("_")) and hasattr(function, "__annotations__"):
                    yield f"{name}.{part}", function


def test_no_public_function_takes_any_keyword() -> None:
    """A misspelt one would not be found by a type checker."""
    for name, function in public_functions():
        for each in inspect.signature(function).parameters.values():
            assert each.kind is not each.VAR_KEYWORD or "Unpack" in str(each.annotation), f"{name}(**{each.name})"


def test_the_package_says_that_it_has_types() -> None:
    """Else a type checker takes every name of an installed Logdex for Any."""
    assert (files("logdex") / "py.typed").is_file()


def test_paths_may_be_path_objects() -> None:
    """Wherever a function takes the path of a file or directory."""
    for name, function in public_functions():
        for parameter, hint in inspect.get_annotations(function).items():
            if name not in LABELS and (parameter in ("path", "root", "directory") or parameter.endswith("_path")):
                assert "PathLike" in str(hint) or "StrPath" in str(hint), f"{name}({parameter}: {hint})"


def write_programs(folder: Path) -> list[str]:
    """Programs of somebody else's: one, and what the pages show. Returns their names."""
    programs = {"program.py": PROGRAM, **dict(blocks_of_pages())}
    assert len(programs) > 20
    for name, code in programs.items():
        (folder / name).write_text(code, "utf-8")
    return [*programs]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_mypy_knows_the_names(tmp_path: Path) -> None:
    """With --strict. PyArrow has no types."""
    programs = write_programs(tmp_path)
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--config-file", os.devnull]
    command += ["--disable-error-code", "import-untyped", "--cache-dir", str(tmp_path / "cache"), *programs]
    environment = {**os.environ, "MYPYPATH": str(ROOT / "src")}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("program.py")]
    assert [line for line in done.stdout.splitlines() if line not in lines] == []
    revealed = [line.split('"')[1] for line in lines if "Revealed type" in line]
    revealed = [re.sub(r"tuple\[.*fallback=(.*)\]", r"\1", each) for each in revealed]  # a NamedTuple
    assert revealed == REVEALED, done.stdout + done.stderr
    errors = [line for line in lines if "error" in line]
    assert [line.rpartition("[")[2] for line in errors] == ["arg-type]", *["call-arg]"] * 3, "arg-type]"]
    assert ['did you mean "max_index_num"' in line or 'did you mean "flush"' in line for line in errors[1:4]] == [
        True
    ] * 3


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_pyright_knows_the_names(tmp_path: Path) -> None:
    """In its strict mode, without the rules about what comes from packages without types."""
    write_programs(tmp_path)
    untyped: tuple[str, ...] = ("MissingTypeStubs", "UnknownMemberType", "UnknownVariableType", "UnknownArgumentType")
    untyped += ("UnknownLambdaType",)
    settings = {"typeCheckingMode": "strict", "extraPaths": [str(ROOT / "src")]} | {
        f"report{rule}": False for rule in untyped
    }
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings), "utf-8")
    command = [sys.executable, "-m", "basedpyright", "--outputjson", "--pythonpath", sys.executable]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    found = json.loads(done.stdout)["generalDiagnostics"]
    assert {Path(each["file"]).name for each in found} == {"program.py"}, done.stdout
    errors = [each["rule"] for each in found if each["severity"] == "error"]
    assert errors == ["reportArgumentType", *["reportCallIssue"] * 3, "reportArgumentType"]
    revealed = [each["message"] for each in found if each["severity"] == "information"]
    assert [text.rpartition(" is ")[2].strip('"') for text in revealed] == [
        re.sub(r"[\w.]+\.", "", name) for name in REVEALED
    ]
