"""Every public call that takes a path takes a `str` and an `os.PathLike` alike."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import logdex
from logdex import kafka, rocketmq
from logdex.errors import NotAStoreError, UnsupportedLayoutError, UsageError

NAMES = {"path", "root", "directory", "output", "log_path", "broker_conf", "store", "key_index_dir"}
JOBS = [f"{home}.{job}" for home in ("rocketmq", "kafka") for job in ("verify", "rebuild", "recover")] + ["spark"]
OWN_TEXT = {"Finding", "FollowReport", "Info", "LoadReport", "QueueInfo", "RecordBatch", "unpack", "rename"}
"""Values that name a path in what is returned or in a message, decoders that name it in errors, and
names that a writer gives itself."""


@cache
def public_calls() -> dict[str, Callable[..., Any]]:
    """The functions, constructors, class methods and static methods that programs call with a
    path."""
    found: dict[str, Callable[..., Any]] = {name: getattr(logdex, name) for name in logdex.__all__ if "open" in name}
    exported: dict[str, Any] = {}
    for home in ("rocketmq", "kafka", *JOBS):
        module = importlib.import_module(f"logdex.{home}")
        exported |= {f"{home}.{name}": getattr(module, name) for name in module.__all__}
    for name, value in exported.items():
        if name.rpartition(".")[2] in OWN_TEXT:
            continue
        if inspect.isfunction(value):
            found[name] = value
        elif inspect.isclass(value):
            found[name] = value.__init__
            methods = inspect.getmembers(value, lambda each: inspect.isfunction(each) or inspect.ismethod(each))
            public = {f"{name}.{own}": each for own, each in methods if not own.startswith("_")}
            found |= {own: each for own, each in public.items() if own.rpartition(".")[2] not in OWN_TEXT}
    return found


@pytest.mark.parametrize("name", public_calls())
def test_paths_of_any_kind(name: str) -> None:
    parameters = inspect.signature(public_calls()[name]).parameters.values()
    taken = {each.name: str(each.annotation) for each in parameters if each.name in NAMES}
    right = ("PathLike", "StrPath", "MessageStore")  # an open store is no path
    wrong = {own: kind for own, kind in taken.items() if not any(each in kind for each in right)}
    assert wrong == {}


def test_a_path_opens_everything(golden_store: Any, golden_log: Any, tmp_path: Path) -> None:
    store, logs = golden_store("tiny-5.5.0"), golden_log("tiny-broker")
    for path in (store, logs, logs / "orders-0"):
        with logdex.open(path) as snapshot:
            assert snapshot.scan().to_arrow().read_all().num_rows > 0
    with kafka.LogDirSnapshot(logs) as snapshot:
        assert snapshot.query("orders", "key-51", key_index_dir=tmp_path) == snapshot.query("orders", "key-51")
    with rocketmq.CommitLog(store / "commitlog") as log:
        assert log.files
    with kafka.Log.open(tmp_path / "events-0") as written:
        written.append(kafka.Record(value=b"a"))
    with kafka.LogFollower(tmp_path / "events-0") as follower:
        assert [record.value for record in follower.poll()] == [b"a"]


@pytest.mark.parametrize(
    "opens",
    [
        *(logdex.open, logdex.open_store, logdex.open_kafka, logdex.open_log_dir, logdex.open_partition),
        *(kafka.Log.open, kafka.LogFollower, lambda path: kafka.LogReader(path, "r"), kafka.KafkaLogDir),
        *(rocketmq.MessageStore.open, lambda path: rocketmq.Consumer(path, "g", "t"), rocketmq.CommitLog.of_store),
        *(rocketmq.ConsumerOffsetManager, rocketmq.LocalFileOffsetStore, rocketmq.StoreCheckpoint.read),
    ],
)
def test_what_is_no_path(opens: Callable[[Any], object]) -> None:
    for path in (None, 3, b"store"):
        with pytest.raises(UsageError, match=f"the path is {path!r} .give a str or a pathlib.Path"):
            opens(path)
    with pytest.raises(UsageError, match="the path is empty"):
        opens("")


def test_a_path_of_the_other_format(golden_store: Any, golden_log: Any) -> None:
    store, logs = golden_store("tiny-5.5.0"), golden_log("tiny-broker")
    for opens in (logdex.open_kafka, logdex.open_log_dir, logdex.open_partition):
        for path in (store, store / "commitlog", store / "commitlog" / ("0" * 20)):
            with pytest.raises(NotAStoreError, match=r"of a RocketMQ store, not of a Kafka log .logdex.open_store"):
                opens(path)
    for path in (logs, logs / "orders-0", next((logs / "orders-0").glob("*.log"))):
        with pytest.raises(UnsupportedLayoutError, match=r"Kafka .* not a RocketMQ store .logdex.open_kafka"):
            logdex.open_store(path)


def test_writers_are_opened_not_made(tmp_path: Path) -> None:
    for made in (rocketmq.MessageStore, kafka.Log):
        for path in (str(tmp_path / "events-0"), tmp_path):
            with pytest.raises(UsageError, match=rf"{made.__name__}.open\(path\) opens one to write it"):
                made(path)  # type: ignore[arg-type]
