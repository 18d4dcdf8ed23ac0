"""The real engine opens a store whose ConsumeQueues and IndexFiles are ours, and says of it what it
says of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from logdex.rocketmq.rebuild import rebuild
from tests.conformance.rocketmq.test_rebuild import config_of
from tests.examples import cases
from tests.golden import rocketmq as golden
from tests.java import QUICK

pytestmark = [pytest.mark.needs_java, pytest.mark.timeout(600)]

GEOMETRY_FLAGS = {
    "commitLogFileSize": "--commitlog",
    "consumeQueueEntries": "--cq",
    "hashSlots": "--slots",
    "maxIndexNum": "--max-index",
}
CASES = [name for name in ("plain", "plain-4.9.7", "tiny-5.5.0", "tiny-4.9.7") if name in golden.NAMES]


def dump(
    peers: Path,
    name: str,
    store: Path,
    work: Path,
    *,
    asked: Sequence[dict[str, Any]] | None = None,
    keep: Path | None = None,
) -> dict[str, list[dict[str, Any]]]:
    """What DumpStore reads, by kind of line; `asked` all of the manifest's queries, or others. The
    copy that the engine ran on is kept at `keep`."""
    manifest = golden.manifest(name)
    queries = work / "queries"
    asked = manifest["queries"] if asked is None else asked
    queries.write_text("".join("\t".join(_question(query)) + "\n" for query in asked), encoding="utf-8")
    flags = [text for key, flag in GEOMETRY_FLAGS.items() for text in (flag, str(manifest["geometry"][key]))]
    command = [str(peers / "run"), "-v", manifest["rocketmq"], "DumpStore", "--dir", str(store), *flags]
    command += ["--queries", str(queries), *(["--keep", str(keep)] if keep is not None else [])]
    environ = {**os.environ, "JAVA_OPTS": " ".join(QUICK)}
    done = subprocess.run(command, env=environ, capture_output=True, timeout=500, check=True)
    lines: dict[str, list[dict[str, Any]]] = {}
    for text in done.stdout.decode().splitlines():
        line = json.loads(text)
        lines.setdefault(line.pop("type"), []).append(line)
    return lines


def _question(query: dict[str, Any]) -> list[str]:
    tag = [query["indexType"]] if query["indexType"] else []
    return [str(query[field]) for field in ("topic", "key", "max", "begin", "end")] + tag


@pytest.mark.parametrize("name", cases(CASES, 4))
def test_the_engine_answers_the_same_from_our_files(
    name: str, golden_copy: Callable[[str], Path], peers_dir: Path, tmp_path: Path
) -> None:
    store = golden_copy(name)
    manifest = golden.manifest(name)
    for folder in ("consumequeue", "index"):
        shutil.rmtree(store / folder)
    report = rebuild(str(store), str(tmp_path / "rebuilt"), config_of(name))
    for folder in ("consumequeue", "index"):
        shutil.move(tmp_path / "rebuilt" / folder, store / folder)
    lines = dump(peers_dir, name, store, tmp_path)
    assert report.messages == len(manifest["messages"])
    assert lines["store"] == [manifest["store"]]
    assert lines["message"] == manifest["messages"]
    fields = ("topic", "queueId", "queueOffset", "physicalOffset", "size", "tagsCode", "read")
    assert [[entry[field] for field in fields] for entry in lines["entry"]] == manifest["entries"]
    asked = [{key: value for key, value in query.items() if key != "exact"} for query in manifest["queries"]]
    assert lines["query"] == asked
    assert [queue for queue in lines["queue"] if queue["max"]] == manifest["queues"]
