"""The scan: a segment's bytes as windows of batch columns, which everything derived is made of."""
