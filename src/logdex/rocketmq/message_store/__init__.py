"""RocketMQ's writing engine: `MessageStore` is a store that this process writes and reads."""
