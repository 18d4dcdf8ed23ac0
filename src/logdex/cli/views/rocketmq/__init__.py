"""The output of commands for RocketMQ's stores."""
