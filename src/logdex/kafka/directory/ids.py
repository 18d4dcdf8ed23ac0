"""The ids by which one topic is told from another of the same name."""

from __future__ import annotations

from typing import NamedTuple

from logdex.errors import LogdexError
from logdex.io.env import Env
from logdex.kafka.directory.partition_files import home_of
from logdex.kafka.files.file_names import META_PROPERTIES
from logdex.kafka.files.metadata_files import MetaProperties, read_topic_id, uuid_to_text


class PartitionIds(NamedTuple):
    """The ids of the cluster and of the topic of a partition, as Kafka writes them; None where no
    file states them legibly."""

    cluster_id: str | None = None
    topic_id: str | None = None

    @staticmethod
    def of(directory: str, env: Env) -> PartitionIds:
        """Reads the ids of the partition in a directory. What cannot be read is left to
        `verify`."""
        cluster_id = topic_id = None
        try:
            properties = f"{home_of(env.real_path(directory), env=env)[0]}/{META_PROPERTIES}"
            cluster_id = MetaProperties.read(properties, env=env).cluster_id if env.exists(properties) else None
            found = read_topic_id(directory, env=env)
            topic_id = None if found is None else uuid_to_text(found)
        except LogdexError:
            pass
        return PartitionIds(cluster_id, topic_id)
