"""How the tests of `rocketmq_store` open the stores of `small_stores`."""

from __future__ import annotations

from typing import Any

GEOMETRY = {"maxHashSlotNum": "7", "maxIndexNum": "12", "rocketmqVersion": "5.5.0"}


def offsets(rows: list[dict[str, Any]]) -> list[int]:
    return [row["queueOffset"] for row in rows]
