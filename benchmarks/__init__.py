"""Figures of Logdex and of the real engine, taken in one run on the same directories. `scripts/bench --help`."""
