"""The golden stores of RocketMQ: which there are, their manifests, and unpacking them.

`NAME.json` tells what is in `NAME.tar.zst` (a directory `store/`) and, where the end was unclean,
in `NAME.recovered.tar.zst` (`recovered/`). They lie in ../shared/golden/rocketmq and, a few, in
tests/conformance/rocketmq/stores.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from tests.golden.archives import ROOT, SHARED, discover, extract

FOLDERS = (ROOT / "tests" / "conformance" / "rocketmq" / "stores", SHARED / "golden" / "rocketmq")


CASES = discover(FOLDERS)
"""Manifest path by case name; the repository's own copy comes before the shared one."""

NAMES = sorted(CASES)
"""All case names, for `pytest.mark.parametrize("name", NAMES)`."""


@cache
def manifest(name: str) -> dict[str, Any]:
    """The parsed manifest of a case. Cached: do not change it."""
    loaded: dict[str, Any] = json.loads(CASES[name].read_bytes())
    return loaded


def can_be_meant(question: dict[str, Any]) -> bool:
    """Whether a query of a manifest is about a topic that the store has, and its times are in
    order."""
    return bool(question["topic"] != "NoTopic" and question["begin"] <= question["end"])


def has_recovered(name: str) -> bool:
    """Whether the case has a directory as the real engine recovered it."""
    return CASES[name].with_suffix(".recovered.tar.zst").exists()


def unpack(name: str, target: Path, *, recovered: bool = False) -> Path:
    """Unpacks a case below `target`; the path of its `store` (or `recovered`) directory. Sparse
    files stay sparse."""
    extract(CASES[name].with_suffix(".recovered.tar.zst" if recovered else ".tar.zst"), target)
    return target / ("recovered" if recovered else "store")


def unpack_demo(target: Path) -> None:
    """Unpacks the store of `scripts/demo`, which is no case, to `target/store`."""
    extract(FOLDERS[0] / "demo.tar.zst", target)


def derived_anew() -> list[str]:
    """The cases whose ConsumeQueues and IndexFiles all follow from their CommitLog: a clean end and
    nothing taken away since (then those of `store`), or an engine that found none and made them all
    (then those of `recovered`)."""
    follow = []
    for name in NAMES:
        case = manifest(name)
        gone = {harm.get("path") for harm in case["harm"]}
        if {"consumequeue", "index"} <= gone if case["unclean"] else not gone:
            follow.append(name)
    return follow
