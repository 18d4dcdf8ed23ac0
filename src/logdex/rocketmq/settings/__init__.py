"""What is told of a store, not read from it: sizes, delay levels, the dialect of a version, the
properties file of a broker."""
