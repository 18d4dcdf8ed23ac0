"""The import of Parquet: rows become messages of a new store, or records of new partitions."""

from logdex.convert.load.job import load

__all__ = ["load"]
