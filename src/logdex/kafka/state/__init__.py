"""The state of a partition beside its records: producers and leader epochs."""
