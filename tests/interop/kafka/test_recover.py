"""The real broker's classes load what recover made of harmed logs: trusting its files and deriving
them again, they find the same records and leave every file as it is."""

from __future__ import annotations

import base64
import random
import shutil
from pathlib import Path

import pytest

from logdex.kafka.columns.record_columns import read_record_batches
from logdex.kafka.recover import recover
from logdex.kafka.settings.log_config import LogConfig
from tests.golden import kafka as golden
from tests.interop.kafka.peer import Line, digests, needs_peers, read_log
from tests.property.kafka.test_recover import harm

pytestmark = [pytest.mark.needs_java, needs_peers, pytest.mark.timeout(600)]

STORES = ("tiny-broker", "tiny-crash", "tiny-compacted")
RUNS = [
    pytest.param(
        seed, load, version, marks=[] if (seed, load, version) == (1, "unclean", "4.4.0") else pytest.mark.slow
    )
    for seed in range(1, 5)
    for load in ("clean", "unclean", "full")
    for version in ("4.4.0", "3.9.2")
]


def harmed(seed: int, target: Path) -> Path:
    """A golden log directory with some harm."""
    rng = random.Random(seed)
    root = golden.unpack(STORES[seed % len(STORES)], target / "harmed")
    logs = [
        path for path in sorted(root.rglob("*.log")) if path.stat().st_size and not path.parent.name.startswith("__")
    ]
    for path in rng.sample(logs, k=min(3, len(logs))):
        raw = bytearray(path.read_bytes())
        harm(raw, rng)
        path.write_bytes(raw)
    return root


def our_records(root: Path) -> list[tuple[str, int, bytes | None, bytes | None]]:
    """(partition, offset, key, value) of all records, control records too."""
    found = []
    for path in sorted(root.glob("*-*/*.log")):
        for part in read_record_batches(str(path), columns=["offset", "key", "value"], skip_control=False):
            rows = zip(*(part.column(name).to_pylist() for name in ("offset", "key", "value")), strict=True)
            found += [(path.parent.name, *row) for row in rows]
    return found


def told_record(line: Line) -> tuple[str, int, bytes | None, bytes | None]:
    key, value = (None if line[name] is None else base64.b64decode(line[name]) for name in ("key", "value"))
    return line["partition"], line["offset"], key, value


@pytest.mark.parametrize(("number", "load", "version"), RUNS)
def test_the_broker_loads_what_was_recovered(number: int, load: str, version: str, tmp_path: Path) -> None:
    root, output = harmed(number, tmp_path), tmp_path / "recovered"
    recover(str(root), str(output), LogConfig())  # with the interval that the loading classes have
    for path in list(output.glob("*/lost+found")):
        shutil.rmtree(path)  # the program digests every name of a partition, and knows no folders
    lines = read_log(output, version, "--mode", "log", "--load", load)
    assert not [line for line in lines.get("log", []) if "failed" in line]
    assert "stop" not in lines
    assert sorted(map(told_record, lines["record"]), key=_place) == sorted(our_records(output), key=_place)
    for partition in {line["partition"] for line in lines["file"]}:
        told = {
            line["name"]: (line["size"], line["sha256"]) for line in lines["file"] if line["partition"] == partition
        }
        ours = {name: file for name, file in digests(output / partition).items() if not name.startswith("lost+found")}
        differing = {name for name in ours if told.get(name) != ours[name]}
        assert differing <= {name for name in ours if name.endswith(".snapshot")}, partition


def _place(record: tuple[str, int, bytes | None, bytes | None]) -> tuple[str, int]:
    return record[:2]
