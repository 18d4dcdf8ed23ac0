"""verify over every store that a real broker wrote: nothing to find after a clean end, else only
what is true."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from logdex.io.env import Env
from logdex.rocketmq.verify import VerifyReport, verify
from tests.golden import rocketmq as golden
from tests.unit.rocketmq.verify.store_harm import config_of

RECOVERED = [name for name in golden.NAMES if golden.has_recovered(name)]
STORES = [(name, False) for name in golden.NAMES] + [(name, True) for name in RECOVERED]

TRUE_FINDINGS: dict[tuple[str, bool], set[str]] = {
    ("crash-torn", False): {"torn-tail"},
    ("tiny-torn", False): {"torn-tail"},
    ("crash-crc-4.9.7", False): {"message-crc"},
    # Recovery moves positions and leaves the bytes of what it cut: nothing has been put over them
    # yet.
    ("crash-torn", True): {"torn-tail"},
    ("tiny-torn", True): {"torn-tail"},
    ("crash-crc-4.9.7", True): {"message-crc"},
}
"""What is to be found in stores with an unclean end, and in what the engine's recovery made of
them."""

TRUE_INFOS: dict[tuple[str, bool], set[str]] = {
    ("crash-no-derived", False): {"unclean-end", "no-checkpoint", "consume-queue-missing", "index-missing-range"},
    ("tiny-crash", False): {"unclean-end", "no-checkpoint", "consume-queue-missing", "index-missing-range"},
    ("tiny-trimmed", False): {"unclean-end", "no-checkpoint", "consume-queue-missing", "index-missing-range"},
    ("crash-torn", False): {"unclean-end", "consume-queue-stale-entries"},
    ("tiny-torn", False): {"unclean-end", "consume-queue-stale-entries"},
    ("crash-torn", True): {"consume-queue-stale-entries", "index-repeated-entries"},
    ("crash-crc-4.9.7", False): {"unclean-end", "consume-queue-stale-entries"},
    # The engine deleted the one IndexFile and built it anew from where its recovery began: keys
    # before are lost to it.
    ("crash-lost-keys", True): {"index-not-written"},
    ("tiny-expired", False): {"index-expired-entries"},
}


def is_known(name: str) -> bool:
    """Whether the unclean store is one that the tables above tell of; more may lie there than are
    seen here."""
    known = {store for store, _ in (*TRUE_INFOS, *TRUE_FINDINGS)}
    return not golden.manifest(name)["unclean"] or name in known


def run(root: Path, name: str) -> VerifyReport:
    """Large sparse stores are not hashed; what is written is counted."""
    env = Env()
    report = verify(str(root), config_of(name), env=env)
    assert env.counters.written_bytes == 0
    return report


@pytest.mark.parametrize(("name", "recovered"), STORES)
def test_finds_what_is_true_and_nothing_else(name: str, recovered: bool, golden_store: Any) -> None:
    if not is_known(name):
        pytest.skip("an unclean store that the tables here do not tell of")
    report = run(golden_store(name, recovered=recovered), name)
    found = {finding.check for finding in report.findings}
    assert found == TRUE_FINDINGS.get((name, recovered), set()), [finding.to_json() for finding in report.findings]
    assert len(report.findings) == len(found)
    infos = {info.kind for info in report.infos} - {"no-topics"}  # an engine without its broker
    assert infos == TRUE_INFOS.get((name, recovered), infos)
    assert ("unclean-end" in infos) == (golden.manifest(name)["unclean"] and not recovered)


@pytest.mark.parametrize("name", ["crash-torn", "tiny-torn"])
def test_where_the_torn_tail_is(name: str, golden_store: Any) -> None:
    if name not in golden.NAMES:
        pytest.skip("needs ../shared beside the checkout")
    last, size = golden.manifest(name)["messages"][-1], golden.manifest(name)["geometry"]["commitLogFileSize"]
    end = last["physicalOffset"] + last["size"]
    (finding,) = run(golden_store(name), name).findings
    assert (Path(finding.path).name, finding.position) == (f"{end - end % size:020d}", end % size)
