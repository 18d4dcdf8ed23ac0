"""The golden Kafka log directories: which there are, what their manifests say, and unpacking them.

`NAME.tar.zst` is a log directory as it lay on the broker's disk, `NAME.json` what the real engine
says of it, `NAME.records.jsonl.zst` every batch and record. They lie in ../shared/golden/kafka and,
a few small ones, in tests/conformance/kafka/stores. The fields of each line are those of the peers'
`ReadLog`.
"""

from __future__ import annotations

import json
from collections import defaultdict
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa

from logdex.layout.kafka import RECORD_BATCH
from tests.golden.archives import ROOT, SHARED, discover, extract

FOLDERS = (ROOT / "tests" / "conformance" / "kafka" / "stores", SHARED / "golden" / "kafka")


CASES = discover(FOLDERS)
"""Manifest path by case name."""

NAMES = sorted(CASES)
"""All case names, for `pytest.mark.parametrize("name", NAMES)`."""

Line = dict[str, Any]


@cache
def manifest(name: str) -> Line:
    """The parsed manifest of a case. Cached: do not change it."""
    loaded: Line = json.loads(CASES[name].read_bytes())
    return loaded


def unpack(name: str, target: Path) -> Path:
    """Unpacks a case below `target`; the path of its log directory. Sparse files stay sparse."""
    target.mkdir(parents=True, exist_ok=True)
    extract(CASES[name].with_suffix(".tar.zst"), target)
    return target


def partitions(name: str) -> list[str]:
    """The names of a case's partition directories."""
    return sorted({path.split("/")[0] for path in manifest(name)["files"] if "/" in path})


def index_interval_bytes(name: str) -> int:
    """The `index.interval.bytes` that the case's indexes are built with."""
    return int((manifest(name)["config"].get("read") or {}).get("index.interval.bytes", 4096))


def lines(name: str, section: str, kind: str | None = None) -> list[Line]:
    """Lines of a manifest's section (``raw``, ``recovered``, ``loaded.clean``, ``broker``), of one
    `kind` or of all."""
    found: Any = manifest(name)
    for part in section.split("."):
        found = (found or {}).get(part) or {}
    return [line for line in found if kind is None or line["kind"] == kind]


@lru_cache(maxsize=3)
def records(name: str) -> tuple[Line, ...]:
    """Every batch and record line of a case, batches before their records, in the order of the log.

    Cached: do not change them."""
    packed = CASES[name].with_suffix(".records.jsonl.zst")
    with pa.OSFile(str(packed)) as raw, pa.CompressedInputStream(raw, "zstd") as stream:
        return tuple(json.loads(f"[{','.join(stream.read().decode().splitlines())}]"))


@cache
def cut_partitions(name: str) -> frozenset[str]:
    """Partitions of which the real broker, recovering them, loads less than lies there: there is a
    batch with a wrong checksum, or a segment in the middle that ends within a batch."""
    invalid = {line["partition"] for line in records(name) if line["kind"] == "batch" and not line["valid"]}
    return frozenset(invalid | {line["partition"] for line in lines(name, "recovered", "dropped")})


@cache
def segments_of_harmed_headers(name: str) -> frozenset[tuple[str, int]]:
    """(partition, base offset) of the segments with a flip in a batch's header: what look-ups say
    by it is anyone's."""
    flips = [harm for harm in manifest(name).get("damage") or [] if harm["op"] == "flip"]
    found = set()
    for line in records(name) if flips else ():
        if line["kind"] == "batch":
            log = f"{line['partition']}/{line['segment']:020d}.log"
            header = range(line["position"], line["position"] + RECORD_BATCH.size_bytes)
            if any(harm["file"] == log and harm["position"] in header for harm in flips):
                found.add((line["partition"], line["segment"]))
    return frozenset(found)


def by_segment(found: list[Line]) -> dict[tuple[str, int], list[Line]]:
    """Lines grouped by (partition, base offset of the segment)."""
    grouped: dict[tuple[str, int], list[Line]] = defaultdict(list)
    for line in found:
        grouped[line["partition"], line["segment"]].append(line)
    return grouped
