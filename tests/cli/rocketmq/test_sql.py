"""`logdex sql` of a RocketMQ store."""

from __future__ import annotations

import base64
import csv
import io
import json
import zlib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("duckdb")
from logdex.layout.rocketmq import SYS_FLAG_COMPRESSED
from tests.cli.helpers import end_of, run, run_json, without_end
from tests.unit.rocketmq.small_stores import MESSAGES, build, message

GEOMETRY = (
    *("--mapped-file-size-consume-queue", 320, "--max-hash-slot-num", 7, "--max-index-num", 12),
    *("--rocketmq-version", "5.5.0"),
)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("stores") / "store", MESSAGES)


def test_a_table(store: Path) -> None:
    query = "SELECT tags, count(*) AS messages, min(store_timestamp) AS first FROM messages GROUP BY 1 ORDER BY 1"
    result = run("sql", store, query, *GEOMETRY)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.splitlines() == [
        "TAGS  MESSAGES  FIRST",
        "A           20  2023-11-14T22:13:20.000Z",
        "B           20  2023-11-14T22:13:21.500Z",
    ]


def test_json_lines(store: Path) -> None:
    query = "SELECT queue_offset, body, keys, properties, sum(1) OVER () AS n, NULL AS no FROM messages LIMIT 1"
    [row] = run_json("sql", store, query, *GEOMETRY)
    assert row == {
        "queue_offset": 0,
        "body": "Ym9keSAw",
        "keys": ["k-0"],
        "properties": {"UNIQ_KEY": "u-0", "KEYS": "k-0", "TAGS": "A"},
        "n": 40,
        "no": None,
    }


def test_each_of_two_columns_of_one_name_is_in_the_object(store: Path) -> None:
    assert run_json("sql", store, "SELECT 1 AS x, 2 AS x, 3 AS x_1, 4 AS x", *GEOMETRY) == [
        {"x": 1, "x_1": 2, "x_1_1": 3, "x_2": 4}
    ]


def test_csv(store: Path) -> None:
    result = run("sql", store, "SELECT queue_offset, body, keys, NULL AS no FROM messages LIMIT 2", "--csv", *GEOMETRY)
    assert list(csv.reader(io.StringIO(result.stdout))) == [
        ["queue_offset", "body", "keys", "no"],
        ["0", "body 0", '["k-0"]', ""],
        ["1", "body 1", '["hot"]', ""],
    ]


def test_parquet(store: Path, tmp_path: Path) -> None:
    target = tmp_path / "found.parquet"
    arguments = ("sql", store, "SELECT topic, body FROM messages", "--parquet", target, *GEOMETRY)
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (0, "")
    assert "40 rows" in result.stderr
    assert pq.read_table(target).to_pylist()[39] == {"topic": "TopicA", "body": b"body 39"}
    again = run(*arguments)
    assert again.exit_code == 2
    assert "exists" in again.stderr
    failed = run("sql", store, "SELECT topic::INT FROM messages", "--parquet", tmp_path / "other", *GEOMETRY)
    assert failed.exit_code == 2
    assert [path.name for path in tmp_path.iterdir()] == ["found.parquet"]


def test_a_parquet_file_with_the_name_of_an_address(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "localhost:1.tmp").write_bytes(b"left by a killed run")
    assert run("sql", store, "SELECT 1 AS one", "--parquet", "localhost:1", *GEOMETRY).exit_code == 0
    assert pq.read_table(pa.BufferReader((tmp_path / "localhost:1").read_bytes())).to_pylist() == [{"one": 1}]
    refused = run("sql", store, "SELECT 1 AS one", "--parquet", "s3://localhost/found", *GEOMETRY)
    assert refused.exit_code == 2
    assert "this is a bug" not in refused.stderr


def test_intervals_and_numbers_that_json_lacks(store: Path, tmp_path: Path) -> None:
    query = "SELECT INTERVAL '1 month 6 days 3 hours 52 minutes 10.096 seconds' AS span, 'NaN'::double AS f"
    for form in ((), ("--csv",), ("--json",)):
        printed = without_end(run("sql", store, query, *form).stdout)
        assert "1 month 6 days 03:52:10.096" in printed
    assert json.loads(printed, parse_constant=pytest.fail)["f"] == "nan"
    refused = run("sql", store, query, "--parquet", tmp_path / "span.parquet")
    assert (refused.exit_code, "Parquet has no intervals, as in span" in refused.stderr) == (2, True)
    assert not (tmp_path / "span.parquet").exists()


def test_a_table_of_the_other_format(store: Path) -> None:
    refused = run("sql", store, "SELECT * FROM records")
    assert refused.exit_code == 2
    assert "there are messages, message_keys, queues" in refused.stderr


def test_no_rows(store: Path) -> None:
    query = "SELECT topic FROM messages WHERE topic = 'none'"
    assert run("sql", store, query, *GEOMETRY).stdout == "TOPIC\n"
    assert run("sql", store, query, "--csv", *GEOMETRY).stdout == "topic\n"
    assert run_json("sql", store, query, *GEOMETRY) == []
    assert end_of("sql", store, query, *GEOMETRY)["count"] == 0


def test_a_plan_is_drawn(store: Path) -> None:
    result = run("sql", store, "EXPLAIN SELECT count(*) FROM messages", *GEOMETRY)
    assert (result.exit_code, result.stderr) == (0, "")
    assert len(result.stdout.splitlines()) > 5
    assert "\\x0a" not in result.stdout


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("", "the query is empty"),
        (" -- nothing", "the query is empty"),
        ("SELECT 1; SELECT 2", "only the last statement may return rows"),
    ],
)
def test_no_statement_and_several(query: str, told: str, store: Path) -> None:
    result = run("sql", store, query, *GEOMETRY)
    assert (result.exit_code, result.stdout) == (2, "")
    assert told in result.stderr


def test_statements_before_the_one_with_rows(store: Path) -> None:
    query = "CREATE TABLE few AS SELECT * FROM messages LIMIT 3; SELECT count(*) AS n FROM few"
    assert run("sql", store, query, *GEOMETRY).stdout.splitlines() == ["N", "3"]


def test_what_cannot_run(store: Path) -> None:
    for arguments, told in (
        (("SELECT 1", "--csv", "--json"), "exclude each other"),
        (("SELECT nothing FROM messages",), "nothing"),
        (("SELECT 1", "--control"), "--control is a flag of Kafka's"),
    ):
        result = run("sql", store, *arguments, *GEOMETRY)
        assert (result.exit_code, result.stdout) == (2, "")
        assert told in result.stderr


def test_a_damaged_log_is_told(store: Path, tmp_path: Path) -> None:
    damaged = build(tmp_path / "store", MESSAGES)
    path = sorted((damaged / "commitlog").iterdir())[1]
    data = bytearray(path.read_bytes())
    data[data.index(b"body")] ^= 0xFF
    path.write_bytes(data)
    result = run("sql", damaged, "SELECT max(body) AS last FROM messages", *GEOMETRY)
    assert result.exit_code == 1, result
    assert "the log ends at offset" in result.stderr
    assert "logdex verify" in result.stderr
    assert run("sql", damaged, "SELECT * FROM segments", *GEOMETRY).exit_code == 0
    end = end_of("sql", damaged, "SELECT a.body, b.body FROM messages a, messages b LIMIT 2", *GEOMETRY, exit_code=1)
    assert (end["count"], end["is_complete"], end["problems"]) == (2, False, [])
    [log_end] = end["log_ends"]
    assert log_end["kind"] == "corrupt"
    assert f"the log ends at offset {log_end['offset']}" in result.stderr
    assert end_of("sql", damaged, "SELECT * FROM segments", *GEOMETRY)["log_ends"] == []


def test_the_last_json_object_says_whether_all_was_read(store: Path, tmp_path: Path) -> None:
    end = end_of("sql", store, "SELECT * FROM messages", *GEOMETRY)
    [log_end] = end.pop("log_ends")
    assert log_end["kind"] == "zeros"
    assert end == {"end_of": "sql", "count": 40, "is_complete": True, "problems": []}
    harmed = build(tmp_path / "store", MESSAGES)
    (harmed / "config").mkdir(exist_ok=True)
    (harmed / "config" / "consumerOffset.json").write_text("[")
    end = end_of("sql", harmed, "SELECT * FROM consumer_offsets", *GEOMETRY, exit_code=1)
    assert (end["count"], end["is_complete"]) == (0, False)
    assert "consumerOffset.json" in end["problems"][0]


BODIES = [b"plain", b"compressed " * 90, zlib.compress(b"not said to be compressed"), b"no zlib"]
STORED = [BODIES[0], zlib.compress(BODIES[1]), *BODIES[2:]]


def test_bodies_are_decompressed_on_request(tmp_path: Path) -> None:
    flags = [0, SYS_FLAG_COMPRESSED, 0, SYS_FLAG_COMPRESSED]
    messages = [
        message(number, keys="hot", body=body, sys_flag=flag)
        for number, (body, flag) in enumerate(zip(STORED, flags, strict=True))
    ]
    store = build(tmp_path / "store", messages)

    def bodies(*more: str, exit_code: int = 0) -> list[bytes]:
        query = "SELECT body FROM messages ORDER BY queue_offset"
        rows = run_json("sql", store, query, *GEOMETRY, *more, exit_code=exit_code)
        return [base64.b64decode(row["body"]) for row in rows]

    assert bodies() == STORED
    assert bodies("--decompress", exit_code=1) == BODIES
    lengths = run_json(
        "sql",
        store,
        f"SELECT octet_length(body) AS n FROM message_keys WHERE key = 'hot' AND octet_length(body) = {len(BODIES[1])}",
        *GEOMETRY,
        "--decompress",
        exit_code=1,
    )
    assert lengths == [{"n": len(BODIES[1])}]
    end = end_of("sql", store, "SELECT body FROM messages", *GEOMETRY, "--decompress", exit_code=1)
    assert len(end["problems"]) == 1
    assert "decompress" in end["problems"][0]
    assert run("sql", store, "SELECT count(*) FROM messages", *GEOMETRY, "--decompress").exit_code == 0
