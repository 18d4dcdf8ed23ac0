"""Rebuilding the ConsumeQueues and IndexFiles of a store from its CommitLog alone."""
