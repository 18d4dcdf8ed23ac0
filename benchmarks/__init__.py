"""Measures Logdex and the real engines in one run on the same directories. See `scripts/bench
--help`."""
