"""RocketMQ's store: CommitLog, ConsumeQueue, IndexFile and what is derived from them."""
