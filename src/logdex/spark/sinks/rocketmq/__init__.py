"""The sink into RocketMQ stores, through `MessageStore`."""
