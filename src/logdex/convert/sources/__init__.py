"""What conversions read: the log of a path, in parts that can be read by themselves, from where an
earlier run ended."""
