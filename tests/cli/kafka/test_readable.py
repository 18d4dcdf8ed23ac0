"""The ways in which records are printed, by every command that prints some."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from logdex.kafka.batch.record import Record
from logdex.kafka.log.log import Log
from tests.cli.helpers import end_of, run, run_json

KEYS = ["plain", "umläut", "b\xff"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A log directory with one partition of three records."""
    root = tmp_path / "logs"
    with Log.open(str(root / "t-0"), clock_ms=lambda: 1_700_000_000_000) as log:
        log.append([Record(b"plain", b'{"a": 1.10}', headers=(("h", b"1"), ("h", b"2")))])
        log.append([Record("umläut".encode(), b"x" * 300)])
        log.append([Record(b"b\xff", None)])
    return root


def commands(root: Path) -> list[list[Any]]:
    return [
        ["cat", root],
        ["cat", root, "--follow", "--limit", "3"],
        ["get", root / "t-0", "--offset", "0"],
        ["consume", root, "--topic", "t", "--group", "g"],
    ]


def test_every_command_prints_by_a_template(root: Path) -> None:
    for command in commands(root):
        printed = run(*command, "--format", r"%t/%p\t%o\t%k\t%S\n").stdout
        assert printed == "t/0\t0\tplain\t11\nt/0\t1\tumläut\t300\nt/0\t2\tb\\xff\t-1\n", command
    assert run("query", root, "--topic", "t", "--key", "plain", "--format", "%v|%h").stdout == '{"a": 1.10}|h=1,h=2'


def test_every_command_prints_columns_and_values(root: Path) -> None:
    for command in commands(root):
        printed = run(*command, "--columns", "offset,headers.h,key", "--values", "hex").stdout
        assert printed == f"0\t31\t{b'plain'.hex()}\n1\t\t{'umläut'.encode().hex()}\n2\t\t62ff\n", command
    query = ("query", root, "--topic", "t", "--key", "plain")
    assert run(*query, "--columns", "offset,headers.h").stdout == "0\t1\n"
    rows = run_json("cat", root, "--columns", "offset,value_text")
    assert [row["value_text"] for row in rows] == ['{"a": 1.10}', "x" * 300, None]
    assert all(list(row) == ["offset", "value_text"] for row in rows)


def test_every_command_chooses_among_what_it_reads(root: Path) -> None:
    for command in [commands(root)[0], *commands(root)[2:]]:
        assert [row["offset"] for row in run_json(*command, "--where", "offset > 1")] == [2], command
    assert run_json(*commands(root)[3]) == []  # what was left out is consumed, too
    for value in (b"one", b"two"):
        with Log.open(str(root / "t-0"), clock_ms=lambda: 1_700_000_000_001) as log:
            log.append([Record(b"plain", value)])
    query = ["query", root, "--topic", "t", "--key", "plain"]
    assert [row["offset"] for row in run_json(*query, "--grep", "one", "--max", 1)] == [3]
    assert [row["offset"] for row in run_json(*query, "--where", "headers.h = 1")] == [0]
    assert "no record found" in run(*query, "--grep", "none").stderr


def test_lines_are_cut_unless_they_are_wanted_in_full(root: Path) -> None:
    cut, whole = (run("cat", root, "--offset", 1, "--limit", 1, *more).stdout for more in ((), ("--full",)))
    query = ("query", root, "--topic", "t", "--key", "umläut")
    for short, full in ((cut, whole), (run(*query).stdout, run(*query, "--full").stdout)):
        assert short.endswith("  " + "x" * 119 + "…\n")
        assert full.endswith("  " + "x" * 300 + "\n")


def test_json_has_text_beside_base64(root: Path) -> None:
    rows = run_json("cat", root)
    assert [row["key_text"] for row in rows] == ["plain", "umläut", None]
    assert [base64.b64decode(row["key"]) for row in rows] == [b"plain", "umläut".encode(), b"b\xff"]
    (line,) = run("cat", root, "--limit", 1, "--json", "--values", "json").stdout.splitlines()
    assert '"value": {"a":1.10}' in line
    assert json.loads(line)["key"] == "plain"
    assert "value" not in run_json("cat", root, "--limit", 1, "--values", "none")[0]


def test_what_was_printed_can_be_put_again(root: Path, tmp_path: Path) -> None:
    lines = tmp_path / "lines"
    lines.write_text(run("cat", root, "--json").stdout, "utf-8")
    assert run("put", tmp_path / "t-1", "--create", "kafka", "--file", lines).exit_code == 0
    again = [(row["key"], row["value"], row["headers"]) for row in run_json("cat", tmp_path / "t-1")]
    assert again == [(row["key"], row["value"], row["headers"]) for row in run_json("cat", root)]


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--format", "%x"], "--format has no %x"),
        (["--format", "%R"], "--format has no %R"),
        (["--format", "%k", "--json"], "--format and --json exclude each other"),
        (["--format", "%k", "--columns", "key"], "--format and --columns exclude each other"),
        (["--columns", "ofset"], "there is no field 'ofset'"),
        (["--values", "words"], "Invalid value for '--values'"),
    ],
)
def test_what_does_not_fit_is_refused(flags: list[str], told: str, root: Path) -> None:
    for command in commands(root):
        refused = run(*command, *flags)
        assert (refused.exit_code, refused.stdout) == (2, "")
        assert told in refused.stderr


def test_the_last_object_says_what_programs_need_to_know(root: Path) -> None:
    assert end_of("cat", root) == {
        "end_of": "cat",
        "count": 3,
        "is_complete": True,
        "problems": [],
        "ends": [],
        "gaps": 0,
        "missing_offsets": 0,
        "deleted": [],
    }
    got = {"end_of": "get", "count": 2, "offset": 1, "min_offset": 0, "max_offset": 3, "next_offset": 3}
    good = {"is_complete": True, "problems": [], "ends": [], "gaps": 0, "missing_offsets": 0, "deleted": []}
    assert end_of("get", root / "t-0", "--offset", 1) == {**got, **good}
    none = end_of("get", root / "t-0", "--time", "2100-01-01")
    assert (none["count"], none["offset"], none["next_offset"]) == (0, None, 3)
    assert good.items() <= none.items()
    asked = end_of("query", root, "--topic", "t", "--key", "plain")
    assert asked == {"end_of": "query", "count": 1, "has_more": False, "is_complete": True, "problems": []}
    consumed = end_of("consume", root, "--topic", "t", "--group", "h")
    assert consumed.pop("end_of") == "consume"
    assert consumed == {"count": 3, "group": "h", "partitions": 1, "is_complete": True, "problems": []}
    assert "end_of" not in run("cat", root, "--limit", 1, "--json").stdout  # the limit ended it, not the log
    assert "end_of" not in run("cat", root).stdout


def test_the_last_object_names_what_was_skipped(root: Path) -> None:
    file = root / "t-0" / f"{0:020d}.log"
    data = bytearray(file.read_bytes())
    data[data.index(b"xxx")] ^= 1
    file.write_bytes(data + b"torn")
    for command in (["cat", root], ["cat", root, "--tail", 3], ["get", root / "t-0", "--offset", 0]):
        end = end_of(*command, exit_code=1)
        assert (end["count"], end["is_complete"], len(end["problems"])) == (2, False, 1)
        assert end["problems"][0].startswith(f"{file}: byte ")
        assert [(each["path"], each["position"], each["kind"]) for each in end["ends"]] == [
            (str(file), len(data), "torn")
        ]
    asked = end_of("query", root, "--topic", "t", "--key", "plain", exit_code=1)
    assert (asked["count"], asked["is_complete"], len(asked["problems"])) == (1, False, 1)
    assert asked["problems"][0].startswith(f"{file}: byte ")


def test_the_last_object_of_get_names_an_index_that_cannot_be_used(root: Path) -> None:
    (root / "t-0" / f"{0:020d}.index").write_bytes((1).to_bytes(4) + (99_999).to_bytes(4))
    end = end_of("get", root / "t-0", "--offset", 1)
    assert (end["count"], end["is_complete"], len(end["problems"])) == (2, True, 1)
    assert end["problems"][0].startswith("the OffsetIndex cannot be used: ")


def test_decode(golden_log: Any) -> None:
    logs = golden_log("tiny-broker")
    rows = run_json("cat", logs, "--decode")
    kinds = {(row["topic"], row["decoded"]["type"]) for row in rows if row["decoded"] is not None}
    assert {("__consumer_offsets", "OffsetCommit"), ("__transaction_state", "TransactionLog")} <= kinds
    assert all(row["decoded"] is None for row in rows if not row["topic"].startswith("__"))
    assert all("problem" not in (row["decoded"] or {}) for row in rows)
    line = run("cat", logs, "--topic", "__consumer_offsets", "--limit", 1, "--decode").stdout
    assert '{"type": "' in line
    text = run("cat", logs, "--topic", "__consumer_offsets", "--limit", 1, "--decode", "--format", r"%o %v %s\n").stdout
    assert text.startswith('0 {"type": ')
    assert text.count('{"type": ') == 2
    control = run_json("cat", logs, "--control", "--decode")
    assert {row["decoded"]["type"] for row in control if row["is_control"]} == {"ABORT", "COMMIT"}
    assert '"type": "COMMIT", "coordinator_epoch": ' in run("cat", logs, "--control", "--decode").stdout
    table = run("cat", logs, "--topic", "__transaction_state", "--limit", 1, "--decode", "--columns", "decoded")
    assert json.loads(table.stdout)["type"] == "TransactionLog"
