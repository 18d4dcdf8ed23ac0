"""Checks of the ConsumeQueues."""
