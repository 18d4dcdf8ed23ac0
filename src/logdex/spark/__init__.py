"""The pipeline on Spark: the session, and jobs that run the engine's own kernels in Python workers."""

from logdex.spark.rebuild_job import rebuild

__all__ = ["rebuild"]
