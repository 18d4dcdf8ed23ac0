"""`formats.detect`: every kind of path, with one look at each; what it says of paths of neither
format."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import logdex
from logdex.errors import NotAStoreError, UnsupportedLayoutError, UsageError
from logdex.formats import FORMATS, detect, format_of, refuse_other_settings
from logdex.io.env import Env
from logdex.kafka.directory.recognise import KafkaPathKind
from logdex.kafka.snapshot.partition_snapshot import PartitionSnapshot
from logdex.rocketmq.recognise.store_path import StorePathKind
from logdex.testing.store_builder import make_message, write_commit_log
from tests.golden import kafka as golden_kafka
from tests.golden import rocketmq as golden

SEGMENT = f"{0:020d}"

KINDS = {
    "store": ("a RocketMQ store", StorePathKind.STORE),
    f"store/commitlog/{SEGMENT}": ("a CommitLog file", StorePathKind.COMMIT_LOG),
    f"store/consumequeue/AaTopic/0/{SEGMENT}": ("a ConsumeQueue file", StorePathKind.CONSUME_QUEUE),
    "store/index/*": ("an IndexFile", StorePathKind.INDEX),
    "store/checkpoint": ("a checkpoint", StorePathKind.CHECKPOINT),
    "store/config/topics.json": ("one of the broker's JSON files", StorePathKind.CONFIG),
    "logs": ("a Kafka log directory", KafkaPathKind.LOG_DIR),
    "logs/orders-0": ("a Kafka partition", KafkaPathKind.PARTITION),
    f"logs/orders-0/{SEGMENT}.log": ("a Kafka .log file", KafkaPathKind.LOG),
    f"logs/orders-0/{SEGMENT}.index": ("a Kafka .index file", KafkaPathKind.INDEX),
    f"logs/orders-0/{SEGMENT}.timeindex": ("a Kafka .timeindex file", KafkaPathKind.TIME_INDEX),
    f"logs/orders-0/{116:020d}.txnindex": ("a Kafka .txnindex file", KafkaPathKind.TXN_INDEX),
    f"logs/orders-0/{116:020d}.snapshot": ("a Kafka .snapshot file", KafkaPathKind.SNAPSHOT),
}


class CountingEnv(Env):
    """Counts what is asked of the system, by question and path."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: Counter[tuple[str, str]] = Counter()

    @contextmanager
    def operation(self, kind: str, path: str) -> Iterator[None]:
        self.asked[kind, path] += 1
        with super().operation(kind, path):
            yield

    def repeated(self) -> list[tuple[str, str]]:
        return [asked for asked, times in self.asked.items() if times > 1]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a store in `store` and a log directory in `logs`; only read it."""
    root = tmp_path_factory.mktemp("detect")
    golden.unpack("tiny-5.5.0", root)
    golden_kafka.unpack("tiny-broker", root / "logs")
    (root / "store" / "config").mkdir(exist_ok=True)
    (root / "store" / "config" / "topics.json").write_text("{}")
    return root


@pytest.mark.parametrize("name", KINDS)
def test_each_kind_is_found_with_one_look(name: str, root: Path) -> None:
    (path, *_) = sorted(root.glob(name))
    env = CountingEnv()
    found = detect(path, env=env)
    description, kind = KINDS[name]
    assert (found.path, found.description, found.kind) == (str(path), description, kind)
    assert format_of(found).name == found.format == ("rocketmq" if name.startswith("store") else "kafka")
    assert env.repeated() == []
    assert env.counters.read_bytes == 0
    if path.is_dir():
        assert {kind for kind, _ in env.asked} <= {"is_dir", "list_dir", "real_path"}
    assert detect(f"{path}/" if path.is_dir() else str(path)) == found


def test_a_file_whose_name_says_nothing_is_known_by_its_beginning(root: Path, tmp_path: Path) -> None:
    odd = Path(shutil.copy(root / "store" / "commitlog" / SEGMENT, tmp_path / "from the disk.bin"))
    env = CountingEnv()
    assert detect(odd, env=env).kind is StorePathKind.COMMIT_LOG
    assert env.repeated() == []
    assert env.counters.read_bytes < 100
    named_as_kafkas = odd.rename(tmp_path / f"{SEGMENT}.log")
    assert detect(named_as_kafkas).kind is KafkaPathKind.LOG


@pytest.mark.parametrize("name", ["store", f"store/commitlog/{SEGMENT}", "logs", f"logs/orders-0/{SEGMENT}.log"])
def test_open_does_not_look_again(name: str, root: Path) -> None:
    looked, opened, alone, unfinished = CountingEnv(), CountingEnv(), CountingEnv(), CountingEnv()
    found = detect(root / name, env=looked)
    assert format_of(found).unfinished(found, env=unfinished) == []
    with logdex.open(root / name, env=opened), format_of(found).open(found, env=alone):
        assert opened.asked == looked.asked + alone.asked + unfinished.asked
    assert ("is_dir", found.path) not in alone.asked


@pytest.mark.parametrize(
    ("name", "error", "why", "hint"),
    [
        ("gone", NotAStoreError, "no such file or directory", "check the path"),
        ("empty", NotAStoreError, "the directory is empty", "give a RocketMQ store's root"),
        (
            "text",
            NotAStoreError,
            "this is a file, not a store's directory",
            "a Kafka log directory, a topic-N directory or a .log",
        ),
        (
            "other",
            NotAStoreError,
            "the directory has no commitlog/",
            "give a RocketMQ store's root (it holds commitlog/), a Commit",
        ),
        (
            "a log",
            NotAStoreError,
            "this is the CommitLog of a store, without the store",
            "mkdir STORE && mv '{root}/a log' STORE/commitlog",
        ),
        ("above", NotAStoreError, "a directory above a RocketMQ store", "give the one below: {root}/above/inner"),
        (
            "above/inner/consumequeue",
            NotAStoreError,
            "this is only a part of a store",
            "give the store's root: {root}/above/inner",
        ),
        ("dledger", UnsupportedLayoutError, "a DLedger CommitLog", None),
        ("rocksdb", UnsupportedLayoutError, "ConsumeQueues in RocksDB", None),
        ("lake", NotAStoreError, "this is Parquet, not a log", "read_parquet('{root}/lake/topic=*/*/*.parquet')"),
        ("lake/x.parquet", NotAStoreError, "this is Parquet, not a log", "read_parquet('{root}/lake/x.parquet')"),
    ],
)
def test_what_is_neither(name: str, error: type[Exception], why: str, hint: str | None, tmp_path: Path) -> None:
    for folder in ("empty", "above/inner/commitlog", "above/inner/consumequeue/T", "rocksdb/commitlog"):
        (tmp_path / folder).mkdir(parents=True)
    for file in (
        "text",
        "other/x",
        "lake/_logdex/000001.json",
        "lake/x.parquet",
        "dledger/dledger-n0/x",
        "rocksdb/consumequeue_r/x",
    ):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text("x")
    write_commit_log(str(tmp_path), [make_message()], 512)
    (tmp_path / "commitlog").rename(tmp_path / "a log")
    env = CountingEnv()
    with pytest.raises(error, match=why) as caught:
        detect(tmp_path / name, env=env)
    told = getattr(caught.value, "hint", None)
    assert (hint is None) == (told is None)
    assert (hint or "").format(root=tmp_path) in (told or "")
    assert env.repeated() == []


def test_what_is_above_several(root: Path, tmp_path: Path) -> None:
    """The parent of a log directory, a directory of several stores, and both in one."""
    (tmp_path / "parent").mkdir()
    (tmp_path / "parent" / "kafka-logs").symlink_to(root / "logs")
    env = CountingEnv()
    with pytest.raises(NotAStoreError, match="this is a directory above a Kafka log directory") as caught:
        detect(tmp_path / "parent", env=env)
    assert caught.value.hint == f"give the one below: {tmp_path}/parent/kafka-logs"
    assert env.repeated() == []
    (tmp_path / "several").mkdir()
    for name in ("a", "b"):
        (tmp_path / "several" / name).symlink_to(root / "store")
    (tmp_path / "several" / "c").symlink_to(root / "logs")
    with pytest.raises(NotAStoreError, match="this is not one store or log directory, but there are 3 in it") as caught:
        detect(tmp_path / "several")
    assert caught.value.hint == f"give one of them: {tmp_path}/several/a, {tmp_path}/several/b, {tmp_path}/several/c"


@pytest.mark.parametrize("name", ["events.log", "segment", f"{SEGMENT}.log.bak"])
def test_a_kafka_log_under_another_name(name: str, root: Path, tmp_path: Path) -> None:
    segments = sorted((root / "logs" / "orders-0").glob("*.log"))
    odd = Path(shutil.copy(segments[-1], tmp_path / name))
    env, first = CountingEnv(), segments[-1].name
    with pytest.raises(NotAStoreError, match=r"a Kafka \.log file under another name") as caught:
        detect(odd, env=env)
    assert env.repeated() == []
    assert caught.value.hint == f"give it the name that brokers give it: ln -s {odd} {first}"
    (tmp_path / first).symlink_to(odd)
    assert detect(tmp_path / first).kind is KafkaPathKind.LOG
    with pytest.raises(NotAStoreError, match="under another name"):
        PartitionSnapshot(odd)


def test_a_log_of_old_messages_under_another_name(golden_log: Callable[[str], Path], tmp_path: Path) -> None:
    logs = [path for path in golden_log("tiny-legacy").rglob("*.log") if path.stat().st_size]
    assert logs
    for number, path in enumerate(logs):
        odd = Path(shutil.copy(path, tmp_path / f"old-{number}"))
        with pytest.raises(NotAStoreError, match=r"a Kafka \.log file under another name"):
            detect(odd)


def test_other_files_of_a_store_are_no_kafka_log(golden_store: Callable[[str], Path], tmp_path: Path) -> None:
    store = golden_store("tiny-5.5.0")
    files = [store / "checkpoint", *(store / "index").iterdir(), *(store / "consumequeue").rglob("0*0")]
    for number, path in enumerate(files):
        odd = Path(shutil.copy(path, tmp_path / f"other-{number}"))
        with pytest.raises(NotAStoreError) as caught:
            detect(odd)
        assert "Kafka .log file under another name" not in caught.value.message


def test_settings_of_the_other_format_are_refused(root: Path) -> None:
    wrong: dict[str, Any]
    for name, setting, whose in (("store", "kafka_version", "Kafka"), ("logs/orders-0", "max_index_num", "RocketMQ")):
        found = detect(root / name)
        told = f"{root / name} is {found.description}, and {setting} a setting of {whose}'s"
        wrong = {setting: 1}
        with pytest.raises(UsageError) as caught:
            logdex.open(root / name, env=None, **wrong)
        assert caught.value.message == told
        refuse_other_settings(found, ["of_nobody"])
        with pytest.raises(UsageError, match="unknown setting: of_nobody"):
            logdex.open(root / name, of_nobody=1)  # type: ignore[call-arg]


def test_no_two_formats_share_a_name_or_a_setting() -> None:
    assert [each.name for each in FORMATS.values()] == list(FORMATS)
    names = [name for each in FORMATS.values() for name in each.setting_names]
    assert len(names) == len(set(names))


def test_each_kind_has_a_way_to_open_it(golden_store: Any, golden_log: Any) -> None:
    logs = golden_log("tiny-broker")
    store = golden_store("tiny-5.5.0")
    paths: dict[Callable[[Path], Any], Path] = {
        logdex.open_store: store,
        logdex.open_log_dir: logs,
        logdex.open_partition: logs / "orders-0",
    }
    for opened, path in [*paths.items(), (logdex.open_kafka, logs), (logdex.open_kafka, logs / "orders-0")]:
        with opened(path) as snapshot, logdex.open(path) as same:
            assert type(snapshot) is type(same)
            assert snapshot.topics() == same.topics() != {}
        for other in {store} if opened is logdex.open_kafka else set(paths.values()) - {path}:
            with pytest.raises((NotAStoreError, UnsupportedLayoutError)):
                opened(other)
    with pytest.raises(UsageError, match="max_index_num"):
        logdex.open_store(store, max_index_nun=3)  # type: ignore[call-arg]
