"""The schemas of the brokers' own records against the bytes and the JSON of Kafka's own classes,
with random fields in every version."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from logdex.kafka.internal_topics.message_reader import MessageReader
from logdex.kafka.internal_topics.record_schemas import (
    CONTROL_RECORDS,
    GROUP_RECORDS,
    METADATA_RECORDS,
    SHARE_STATE_RECORDS,
    TRANSACTION_RECORDS,
    RecordSchema,
)
from tests.interop.kafka import peer
from tests.java import QUICK

pytestmark = [pytest.mark.needs_java, peer.needs_peers]

PACKAGE = "org.apache.kafka"
KEYED: dict[str, Mapping[int, RecordSchema]] = {
    "coordinator.group": GROUP_RECORDS,
    "coordinator.share": SHARE_STATE_RECORDS,
    "coordinator.transaction": TRANSACTION_RECORDS,
}
CONTROLS = {
    "LeaderChangeMessage": 2,
    "SnapshotHeaderRecord": 3,
    "SnapshotFooterRecord": 4,
    "KRaftVersionRecord": 5,
    "VotersRecord": 6,
}
MARKER = f"{PACKAGE}.common.message.EndTxnMarker"
OUR_NAMES = {
    "group_id": "group",
    "voter_directory_id": "directory_id",
    "k_raft_version": "kraft_version",
    "k_raft_version_feature": "kraft_version_feature",
}
COUNT = 30


class Case(NamedTuple):
    """A message of a class of Kafka's. `part` is the part of a record that it is."""

    schema: RecordSchema
    part: str


def cases() -> Iterator[tuple[str, Case]]:
    for package, schemas in KEYED.items():
        for schema in {schema.name: schema for schema in schemas.values()}.values():
            for part in ("Key", "Value"):
                yield f"{PACKAGE}.{package}.generated.{schema.name}{part}", Case(schema, part)
    for schema in METADATA_RECORDS.values():
        yield f"{PACKAGE}.common.metadata.{schema.name}Record", Case(schema, "Record")
    for name, kind in CONTROLS.items():
        yield f"{PACKAGE}.common.message.{name}", Case(CONTROL_RECORDS[kind], "Control")
    yield MARKER, Case(CONTROL_RECORDS[0], "Record")


CASES = dict(cases())


def ours(value: Any) -> Any:
    """What Kafka prints, under our names and without fields that have no bytes."""
    if isinstance(value, list):
        return [ours(each) for each in value]
    if not isinstance(value, dict):
        return value
    names = {name: re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower() for name in value}
    return {OUR_NAMES.get(names[name], names[name]).removesuffix("_ms"): ours(each) for name, each in value.items()}


def read(case: Case, version: int, data: bytes) -> tuple[dict[str, Any], bytes]:
    """The fields of a message, and the bytes behind it."""
    reader = MessageReader(data)
    if case.part == "Key":
        return case.schema.read_key(reader), reader.rest()
    if case.part == "Control":
        assert reader.integer(2) == version
    fields = case.schema.read_fields(reader, version)
    return ({"version": version} if case.part == "Control" else {}) | fields, reader.rest()


def plain(value: Any) -> Any:
    if isinstance(value, list):
        return [plain(each) for each in value]
    return {name.removesuffix("_ms"): plain(each) for name, each in value.items()} if isinstance(value, dict) else value


@pytest.fixture(scope="module")
def messages() -> dict[str, list[tuple[int, bytes, Any]]]:
    """By class: version, bytes and JSON of messages."""
    source = Path(__file__).parent / "RecordBytes.java"
    lib = peer._cache("4.4.0") / "lib" / "*"
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"
    command = ["java", *QUICK, quiet, "-cp", str(lib), str(source), "1", str(COUNT), *CASES]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, list[tuple[int, bytes, Any]]] = {}
    for line in done.stdout.splitlines():
        name, version, data, text = line.split("\t")
        found.setdefault(name, []).append((int(version), bytes.fromhex(data), json.loads(text)))
    return found


@pytest.mark.parametrize("name", CASES)
def test_fields_are_those_that_kafka_has_written(name: str, messages: dict[str, list[tuple[int, bytes, Any]]]) -> None:
    case = CASES[name]
    versions = {version for version, *_ in messages[name]}
    assert case.part == "Key" or name == MARKER or max(versions) == case.schema.version_max
    for version, data, told in messages[name]:
        fields, rest = read(case, version, data)
        assert (plain(fields), rest) == (ours(told), b"")
