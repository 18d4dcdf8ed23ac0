"""The source `rocketmq_store`: messages of RocketMQ stores as rows."""
