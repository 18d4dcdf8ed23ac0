"""The settings of a store, which no file of it states: sizes, delay levels, the dialect of a
version."""
