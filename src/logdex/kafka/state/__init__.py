"""What a partition knows beside its records: producers and leader epochs."""
