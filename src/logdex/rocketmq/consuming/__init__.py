"""Consumers of a store: their groups, the offsets that they have committed, messages sent back."""
