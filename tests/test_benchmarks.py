"""The benchmarks of both engines on small data, without the peers: what they measure is the work
that they name."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from benchmarks import __main__ as bench
from benchmarks import (
    kafka_data,
    kafka_local,
    kafka_lookups,
    kafka_others,
    kafka_peer,
    kafka_singles,
    peer,
    printing,
    rocketmq_consume,
    rocketmq_open,
    rocketmq_others,
    rocketmq_put,
    spark_cost,
    spark_export,
    spark_sources,
    spark_time_line,
    starting,
    stores,
    two_threads,
    verify,
)
from benchmarks.__main__ import expand
from benchmarks.measure import Rates
from logdex.kafka.columns.record_columns import read_record_batches
from logdex.rocketmq.rebuild import rebuild
from logdex.rocketmq.settings.store_config import StoreConfig

RECORDS = 3_000


@pytest.fixture(autouse=True)
def no_peers(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("why_missing", "why_native_missing", "why_python_missing"):
        monkeypatch.setattr(kafka_peer, name, lambda: "not in this test")


def test_data_is_made_once_and_has_the_records(tmp_path: Path) -> None:
    partition = kafka_data.ensure(tmp_path, "lz4", RECORDS)
    log = partition / kafka_data.LOG_NAME
    made = log.stat().st_mtime_ns
    assert kafka_data.ensure(tmp_path, "lz4", RECORDS) == partition
    assert log.stat().st_mtime_ns == made
    batches = list(read_record_batches(str(log)))
    assert sum(batch.num_rows for batch in batches) == RECORDS
    assert {len(value.as_py()) for value in batches[0].column("value")} == {kafka_data.VALUE_BYTES}


def test_key_column_has_different_keys_of_20_bytes() -> None:
    keys = kafka_data.key_column(1_200).to_pylist()
    assert len(set(keys)) == 1_200
    assert keys[1_123] == b"kkkk" + b"%016d" % 1_123


@pytest.mark.parametrize(
    ("suite", "lines"),
    [(kafka_local.recovery, 3), (kafka_local.decoding, 6), (kafka_local.appending, 9), (kafka_lookups.look_ups, 12)],
)
def test_suites_give_our_figures_without_the_engine(suite: object, lines: int, tmp_path: Path) -> None:
    rows = suite(tmp_path, 1, RECORDS)  # type: ignore[operator]
    assert len(rows) == lines
    assert all(row["median"] >= 0 and "ratio" not in row for row in rows)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bench-lz4-0", "bench-none-0", "bench-zstd-0"]


def test_key_index_suite_finds_its_keys_and_leaves_nothing(tmp_path: Path) -> None:
    rows = kafka_lookups.key_index(tmp_path, 1, keys=20_000, records=RECORDS)
    assert len(rows) == 4
    assert rows[1]["met"] == "yes"
    assert list(tmp_path.iterdir()) == []


def test_single_calls_are_measured_beside_sqlite(tmp_path: Path) -> None:
    append, read, record = kafka_singles.singles(tmp_path, 1, share=0.01)
    assert (append["bar"], read["bar"]) == (25_000, 500)
    assert append["per_s"] > 0
    assert 0 < record["us"] < 1e6
    assert all(row["sqlite_per_s"] > 0 and row["ratio"] >= 0 for row in (append, read, record))
    assert list(tmp_path.iterdir()) == []


def test_peers_that_are_missing_are_skipped_with_a_reason(tmp_path: Path) -> None:
    rows = kafka_others.peers(tmp_path, 1, RECORDS)
    assert [row["skipped"] for row in rows] == ["not in this test"] * 6


@pytest.mark.slow
def test_peers_stand_beside_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def native(partition: Path, repeats: int) -> list[dict[str, object]]:
        assert (partition / kafka_data.LOG_NAME).is_file()
        return [{"name": "krabka.recover", "unit": "MB/s", "median": 1e9}, {"name": "new", "unit": "k/s", "median": 1}]

    monkeypatch.setattr(kafka_peer, "why_native_missing", lambda: None)
    monkeypatch.setattr(kafka_peer, "native", native)
    rows = [row for row in kafka_others.peers(tmp_path, 1, RECORDS) if "skipped" not in row]
    assert [row["what"] for row in rows[:2]] == ["krabka.recover none, MB/s", "new none, k/s"]
    assert rows[0]["ours"] > 0
    assert rows[0]["ratio"] == 0.0
    assert "ratio" not in rows[1]


def test_the_engines_warm_rounds_count() -> None:
    figures = kafka_peer.warm_figures({"xPerSecondAll": [1.0, 2.0, 7.0, 9.0, 8.0], "xPerSecond": 2.0, "segments": 1})
    assert figures == {"xPerSecond": 8.0}


def test_a_row_holds_the_ratio_against_its_bar() -> None:
    ours = Rates("what", 10, lambda: None, wall=[30.0, 20.0, 10.0], on_core=[20.0])
    assert kafka_local.row(ours, 10.0, 10.0, 2.0) == {
        "what": "what",
        "median": 2.0,
        "best": 3.0,
        "on_core": 2.0,
        "engine": 1.0,
        "ratio": 2.0,
        "bar": 2.0,
        "met": "yes",
    }
    assert kafka_local.row(ours, 10.0, 10.0, 2.1)["met"] == "NO"


@pytest.mark.slow
def test_put_suite_puts_in_every_way_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.peer.why_missing", lambda: "not in this test")
    rows = [*rocketmq_put.puts(tmp_path, 1, messages=500), *rocketmq_consume.consuming(tmp_path, 1, messages=500)]
    assert [row.get("per_s", 1) > 0 for row in rows] == [True] * 9
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_open_suite_opens_what_it_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(stores.SPECS, "1k", stores.StoreSpec("1k", 200, 100))
    monkeypatch.setattr("benchmarks.peer.why_missing", lambda: "not in this test")
    clean, unclean = rocketmq_open.opening(tmp_path, 1, gib=0, names=("1k",))
    assert clean["met"] == "yes"
    assert unclean["work_s"] > 0
    assert [path.name for path in tmp_path.iterdir()] == ["1k"]


def test_suites_by_group() -> None:
    names = ["scan", "kafka-append", "kafka-peers"]
    assert expand("kafka,scan", names) == ["kafka-append", "kafka-peers", "scan"]
    assert expand("all", names) == names


def test_a_figure_is_printed_and_saved_as_soon_as_it_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "figures.json"

    def interrupted() -> Iterator[dict[str, object]]:
        yield {"what": "scan 1k", "mb_per_s": 7}
        assert [row["mb_per_s"] for row in json.loads(path.read_text())["rows"]] == [7]
        assert "what scan 1k  mb_per_s 7" in capsys.readouterr().err
        raise KeyboardInterrupt

    monkeypatch.setattr(bench, "suites", lambda data, repeats: {"scan": interrupted})
    monkeypatch.setattr(sys, "argv", ["bench", "--only", "scan", "--data", str(tmp_path), "--json", str(path)])
    with pytest.raises(KeyboardInterrupt):
        bench.main()
    assert json.loads(path.read_text())["rows"] == [{"what": "scan 1k", "mb_per_s": 7}]
    assert "scan 1k" in capsys.readouterr().out  # the table at the end has it too


def test_embedded_stores_are_measured_alike(tmp_path: Path) -> None:
    rows = list(rocketmq_others.others(tmp_path, 1, share=0.01))
    measured = [row for row in rows if "bulk_per_s" in row]
    assert {"MessageStore", "SQLite, WAL", "MessageStore / SQLite"} <= {row["what"] for row in measured}
    assert rows[-1].keys() > {"look_message_per_s", "get_message_per_s", "snapshot_query_per_s"}
    for row in measured:
        assert all(row[name] > 0 for name in ("put_per_s", "synced_put_per_s", "bulk_per_s", "look_ups_per_s"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_sources_of_spark_are_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(stores.SPECS, "1k", stores.StoreSpec("1k", 200, 100))
    monkeypatch.setattr(peer, "why_missing", lambda: "not in this test")
    monkeypatch.setattr(spark_sources, "WARM_S", 0.0)
    rows = spark_sources.rocketmq_source(tmp_path, 1, "1k", "1k") + spark_sources.kafka_source(tmp_path, 1, RECORDS)
    assert len(rows) == 19
    assert sum("from Spark's memory" in row["what"] for row in rows) == 2  # without a codec, and with lz4
    assert all(row["median"] >= 0 and "ratio" not in row for row in rows)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_jobs_of_spark_are_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The smaller store is the beginning of the larger one, and the key that is looked up is
    found."""
    monkeypatch.setitem(stores.SPECS, "1k", stores.StoreSpec("1k", 2_000, 100))
    monkeypatch.setattr(peer, "why_missing", lambda: "not in this test")
    monkeypatch.setattr(spark_cost, "CORES", (2,))
    root = stores.ensure(stores.SPECS["1k"], tmp_path)
    rebuild(str(root), str(root), StoreConfig(), in_place=True, sync=False)
    rows = list(spark_cost.curve(tmp_path, 1, "1k", (1 << 16, 1 << 20)))
    assert len(rows) == 4 * (2 + 1)
    assert all(row["s_per_gib"] == row["s_per_gib"] for row in rows if row["what"].endswith("a line"))
    rows = spark_time_line.time_line(tmp_path, "1k")
    assert [row["what"].partition(": ")[2] for row in rows][2:] == [*spark_time_line.STEPS, "all"]
    for column in ("spark_s", "spark_again_s", "local_s"):
        *steps, whole = [row[column] for row in rows]
        assert whole > 0
        assert sum(steps) == pytest.approx(whole, abs=0.01)
    rows = [*spark_export.exporting(tmp_path, 1, "1k"), *spark_export.looking_up(tmp_path, 1, "1k")]
    assert [row["what"].split()[0] for row in rows] == ["export", "look", "look"]
    assert all(row["ratio"] > 0 for row in rows)


@pytest.mark.slow
def test_verify_is_measured_against_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.peer.why_missing", lambda: "not in this test")
    for name in ("100b", "1k"):
        monkeypatch.setitem(stores.SPECS, name, stores.StoreSpec(name, 2_000, 100))
        root = stores.ensure(stores.SPECS[name], tmp_path)
        rebuild(str(root), str(root), StoreConfig(), in_place=True, sync=False)
    rows = [*verify.verifying(tmp_path, 1, RECORDS), *two_threads.rebuilding(tmp_path, 1, "1k", RECORDS)]
    assert [row["what"].split()[:2] for row in rows] == [
        *(["verify", "100b"], ["verify", "1k"], ["verify", "Kafka"], ["verify", "Kafka"]),
        *(["rebuild", "1k"], ["rebuild", "16"]),
    ]
    for row in rows:  # the ratio itself may round to 0: the machine may be busy with either
        assert row["best_s"] > 0
        assert row["other_best_s"] > 0
        assert row["ratio"] == pytest.approx(row["other_best_s"] / row["best_s"], rel=0.1, abs=0.05)


@pytest.mark.slow
def test_printing_is_measured_by_whole_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer, "why_missing", lambda: "not in this test")
    monkeypatch.setitem(stores.SPECS, "100b", stores.StoreSpec("100b", 200, 100))
    rows = list(printing.printing(tmp_path, 1, RECORDS))
    assert [row["what"] for row in rows] == [
        "cat --json of a Kafka log",
        "cat of a Kafka log",
        "cat --json of a RocketMQ store",
        "cat of a RocketMQ store",
    ]
    assert all(row["per_s"] > 0 for row in rows)


@pytest.mark.slow
def test_small_commands_are_measured_as_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer, "why_missing", lambda: "not in this test")
    monkeypatch.setitem(stores.SPECS, "8g", stores.StoreSpec("8g", 200, 100))
    monkeypatch.setattr(starting, "SMALL", 100)
    rows = list(starting.starting(tmp_path, 1, gib=0))
    of_store = [f"{command}, {{}} store" for command in ("info", "cat", "get", "message", "query")]
    of_log = [f"{command}, {{}} log" for command in ("info", "cat", "get", "query")]
    assert [row["what"] for row in rows] == [
        "--help",
        *(what.format(size) for size in ("small", "8g") for what in (*of_store, *of_log)),
    ]
    assert all(row["ratio"] > 1 and row["mb"] > 0 for row in rows)
    assert [row["met"] for row in rows if row["mb"] > starting.MEMORY_BAR_MB] == []


@pytest.mark.slow
def test_first_uses_are_measured_with_nothing_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starting, "BULK", 5_000)
    rows = list(islice(starting.first_uses(tmp_path), 3))
    assert [row["what"] for row in rows] == [
        f"first use of {what}" for what in ("cat, store", "cat, log", "verify, store")
    ]
    assert all(row["kernels"] > 10 and row["work_s"] > 1 for row in rows)


def test_a_command_that_fails_is_no_figure() -> None:
    python = [sys.executable, "-c", "pass"]
    [used] = starting.measure([python], 1)
    assert used.memory_mb < 50
    with pytest.raises(RuntimeError, match="failed"):
        starting.measure([python, [sys.executable, "-c", "raise SystemExit(3)"]], 1)
