"""The pipeline on Spark: the session, and jobs that run the engine's own kernels in Python workers."""
