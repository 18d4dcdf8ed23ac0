"""The disk space that a rebuild of logs takes."""

from __future__ import annotations

from logdex.io.env import Env
from logdex.jobs.free_space import require_free_for
from logdex.kafka.rebuild.segment import RebuildSettings
from logdex.kafka.rebuild.source import RebuildSource
from logdex.layout.kafka import RECORD_BATCH


def require_space(output: str, source: RebuildSource, settings: RebuildSettings, env: Env) -> None:
    """Raises `EnvironmentProblem` unless there seems to be space for what a rebuild writes, stage
    files included."""
    segments = source.segments

    def needed(sizes: list[int]) -> int:
        steps = (max(segment.index_interval_bytes, RECORD_BATCH.size_bytes) for segment in segments)
        entries = sum(size // step for size, step in zip(sizes, steps, strict=True))
        return entries * 40 + (sum(sizes) // 4 if settings.key_index else 0) + len(sizes) * (16 << 10)

    require_free_for(output, [(segment.path, segment.size_bytes) for segment in segments], needed, env)
