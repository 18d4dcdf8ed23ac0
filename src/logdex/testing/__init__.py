"""What Logdex is tested with, shipped so that others can test against it."""
