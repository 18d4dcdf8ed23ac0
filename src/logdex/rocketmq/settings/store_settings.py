"""The settings of a RocketMQ store that a caller can give. Their names are declared here."""

from __future__ import annotations

from typing import Annotated, TypedDict

from logdex.io.path_look import StrPath
from logdex.jobs.settings import Flag


class StoreSettings(TypedDict, total=False):
    """Settings that no file of a store states, under the broker's own names.

    A setting that is missing or None is taken from the properties file, else inferred from the
    store's files, else it is the broker's default (`resolve_config`).
    """

    mapped_file_size_commit_log: Annotated[int | None, Flag("mappedFileSizeCommitLog of the broker, bytes.", "BYTES")]
    mapped_file_size_consume_queue: Annotated[
        int | None, Flag("mappedFileSizeConsumeQueue of the broker, bytes.", "BYTES")
    ]
    max_hash_slot_num: Annotated[int | None, Flag("maxHashSlotNum of the broker.", "N")]
    max_index_num: Annotated[int | None, Flag("maxIndexNum of the broker.", "N")]
    message_delay_level: Annotated[str | None, Flag("messageDelayLevel of the broker, such as '1s 5s 10s'.", "LEVELS")]
    rocketmq_version: Annotated[str | None, Flag("Version of the broker that wrote the store.", "VERSION")]
    broker_conf: Annotated[StrPath | None, Flag("The broker's properties file, for all of these.", "FILE")]
