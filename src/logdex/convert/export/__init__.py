"""The export of a log as Parquet: by topic and day, sorted, with statistics and Bloom filters, and
with only what is new at each run."""

from logdex.convert.export.job import export
from logdex.convert.export.report import ExportReport

__all__ = ["ExportReport", "export"]
