"""Following a partition that grows: which batches are new, also after the log was cut."""

from logdex.kafka.read.follow.follower import LogFollower

__all__ = ["LogFollower"]
