"""The columns of a log as a table, for Spark, Parquet and whoever else reads tables."""
