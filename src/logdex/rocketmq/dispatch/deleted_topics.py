"""The topics that a dispatch leaves out, because the broker has deleted them.

Their messages are still in the log. So if one of them is made again, or was only known later than
its messages, its queues are missing from the output, and the dispatch begins from the start.
"""

from __future__ import annotations

from collections.abc import Iterable

from logdex.io.env import Env
from logdex.rocketmq.files.known_topics import KnownTopics
from logdex.rocketmq.files.store_files import StorePaths


class DeletedTopics:
    """The deleted topics of the store at `root`. `left_out` are those of which queues were left
    out, by this run or an earlier one."""

    def __init__(self, root: str, left_out: Iterable[str], env: Env) -> None:
        self.left_out = {_topic(name) for name in left_out}
        self._root, self._env = root, env
        self._file = f"{StorePaths(root).config}/topics.json"
        self._stamp = env.stamp(self._file)
        self._known = KnownTopics.read(root, env=env)
        self._found: dict[bytes, bool] = {}

    def _look_again(self) -> KnownTopics:
        """Returns the topics that the broker has now."""
        stamp = self._env.stamp(self._file)
        if stamp is None or stamp.kind != "file" or stamp != self._stamp:
            self._stamp, self._known = stamp, KnownTopics.read(self._root, env=self._env)
        return self._known

    def is_deleted(self, topic: bytes) -> bool:
        """Whether a topic is deleted. Then its queues are left out. A topic that is new is none:
        the broker writes topics.json before it puts its first message."""
        if topic not in self._found:
            self._found[topic] = self._known.is_deleted(topic) and self._look_again().is_deleted(topic)
            if self._found[topic]:
                self.left_out.add(topic)
        return self._found[topic]

    @property
    def names(self) -> tuple[str, ...]:
        """`left_out` as text, in order."""
        return tuple(topic.decode("utf-8", "surrogateescape") for topic in sorted(self.left_out))

    def has_one_back(self) -> bool:
        """Whether a topic of which queues were left out is there."""
        return any(not self._look_again().is_deleted(topic) for topic in self.left_out)

    def have_changed(self, topics: Iterable[bytes]) -> bool:
        """Whether a topic that was left out is there now, or one of `topics`, which were not, is
        deleted."""
        return self.has_one_back() or any(map(self._look_again().is_deleted, topics))


def _topic(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")
