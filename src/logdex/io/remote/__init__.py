"""Files that are on no disk of this machine, read by ranges through fsspec."""
