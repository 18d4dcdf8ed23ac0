"""The Spark pipeline: the session, and jobs that run the engine's kernels in Python workers."""

from logdex.spark.rebuild_job import rebuild

__all__ = ["rebuild"]
