"""A real broker serves partitions that we wrote; what it does with files that are not its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from logdex.kafka.key_index_build import build_key_index
from tests.interop.kafka_cases import KINDS, Case, make_log_dir, write_case
from tests.interop.kafka_peer import VERSIONS, Lines, config_option, digests, needs_peers, read_log
from tests.interop.kafka_writing import check_consumed, check_times

pytestmark = [pytest.mark.needs_java, needs_peers, pytest.mark.timeout(600), pytest.mark.slow]

LEADERS = {"leader-epoch-checkpoint", "partition.metadata"}
"""What a broker that leads the partition writes by itself."""


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Case]:
    """One log directory, each segment with a key index."""
    root = tmp_path_factory.mktemp("broker") / "logs"
    make_log_dir(root)
    found = {kind: write_case(root, kind) for kind in KINDS}
    for log in sorted(root.glob("*/*.log")):
        log.with_suffix(".keyindex").write_bytes(bytes(build_key_index(str(log))))
    return found


def of_partition(lines: Lines, name: str) -> Lines:
    return {kind: [line for line in found if line.get("partition") == name] for kind, found in lines.items()}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("load", ["clean", "full"])
def test_a_consumer_reads_all_that_we_wrote(cases: dict[str, Case], load: str, version: str, tmp_path: Path) -> None:
    """A fresh broker is given our files as its own. Records come by offset, by time and committed only; afterwards
    every file is as we wrote it, whether the broker trusted them or derived them again; key indexes are let be."""
    case = cases["plain"]
    work = tmp_path / "work"
    options = ["--mode", "broker", "--load", load, "--work", str(work), *config_option(version, case.config)]
    lines = read_log(case.root, version, *options)
    for each in cases.values():
        told = of_partition(lines, each.name)
        check_consumed(told, each.written, begin=each.start, end=each.end)
        check_times(told, each.written, begin=each.start)
        after = digests(work.with_name("work-broker") / each.name)
        for name, digest in digests(each.partition).items():
            is_old = name.endswith(".snapshot") and int(name[:20]) <= each.start
            is_refound = name.endswith(".snapshot") and load == "full" and each.start
            if name in LEADERS or is_old or is_refound:
                continue
            assert after[name] == digest, name
        assert any(name.endswith(".keyindex") for name in after)
    assert "Exception" not in "".join(str(line) for line in lines["log"])
