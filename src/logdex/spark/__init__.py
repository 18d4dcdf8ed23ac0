"""The Spark pipeline: the session, jobs that run the engine's kernels in Python workers, and the
sources that read logs as DataFrames."""

from logdex.spark.rebuild_job import rebuild
from logdex.spark.sources import register
from logdex.spark.tasks import runner_of
from logdex.spark.verify_job import verify

__all__ = ["rebuild", "register", "runner_of", "verify"]
