"""An overview while a topic is deleted and created again has no problem of a healthy store."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

from logdex.rocketmq.snapshot.overview import overview
from tests.beside import At
from tests.examples import some
from tests.unit.rocketmq.small_stores import CONFIG, MESSAGES, build


def create_again(queue: Path) -> None:
    """The queue has the first of its files alone, with the entries of few messages, which are newer
    than those of the topic that was deleted."""
    last = (queue / f"{32 * 20:020d}").read_bytes()
    assert not any(last[8 * 20 :])
    shutil.rmtree(queue)
    queue.mkdir()
    (queue / f"{0:020d}").write_bytes(last[3 * 20 : 8 * 20].ljust(len(last), b"\0"))


def test_a_topic_is_created_again_before_any_operation(tmp_path: Path) -> None:
    store = build(tmp_path / "store", MESSAGES)
    still = At(0, lambda: None)
    assert overview(str(store), CONFIG, env=still).problems == []
    for number in some(range(1, -still.left + 1), 5):
        root = Path(shutil.copytree(store, tmp_path / str(number)))
        env = At(number, partial(create_again, root / "consumequeue" / "TopicA" / "0"))
        assert overview(str(root), CONFIG, env=env).problems == [], number
