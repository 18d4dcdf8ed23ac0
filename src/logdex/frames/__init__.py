"""Logs as tables for Arrow, DuckDB, Polars and pandas, whatever the format: conditions that a query
pushes down, and lazy tables that read only what they leave."""
