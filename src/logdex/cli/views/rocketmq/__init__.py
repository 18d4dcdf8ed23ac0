"""How commands show RocketMQ's stores."""
