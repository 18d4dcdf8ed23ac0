"""The scan: a CommitLog's bytes as windows of columns, which everything derived is made of; where the log ends."""
