"""A check of a store whose broker deletes a topic and creates it again meanwhile, more than once:
nothing is wrong."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path

import pytest

from logdex.io.env import Env
from logdex.jobs import look_again
from logdex.rocketmq.verify import verify
from logdex.rocketmq.verify.verifier import BETWEEN_LOOKS
from logdex.testing.store_builder import make_message
from tests.directories import contents
from tests.examples import some
from tests.unit.rocketmq.small_stores import CONFIG, build

LIVES = 8


@pytest.fixture(
    scope="module", params=[(20, 10), (20, 15), (4, 1)], ids=["within a file", "with a file", "many in a file"]
)
def states(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, bytes]]:
    """The files of a store after each life of the topic Again, which begins within a file of the
    log or where a new one does."""
    again, kept = request.param
    lives = [
        [
            *(make_message(b"Again", queue_offset=number, body=b"%d" % life * 30) for number in range(again)),
            *(make_message(b"Kept", queue_offset=kept * life + number) for number in range(kept)),
        ]
        for life in range(LIVES)
    ]
    folder = tmp_path_factory.mktemp("states")
    return [contents(build(folder / str(n), [*chain(*lives[:n])])) for n in range(1, LIVES + 1)]


class Recreating(Env):
    """Goes from state to state in place, at one operation of each look. The new life's first file
    of a queue has no entry until `wait` operations later."""

    def __init__(self, root: Path, states: list[dict[str, bytes]], at: int, wait: int) -> None:
        super().__init__()
        self.count = 0
        """The number of operations of the look."""
        self._root, self._at, self._wait = root, at, wait
        self._states = iter(states[2:])
        self._entries: dict[str, bytes] = {}
        self._go_on()
        self._write(self._entries)

    def _go_on(self) -> None:
        shutil.rmtree(self._root / "consumequeue" / "Again", ignore_errors=True)
        state = next(self._states, {})
        self._entries = {name: data for name, data in state.items() if "Again" in name}
        self._write(state | {name: bytes(len(data)) for name, data in self._entries.items()})
        (self._root / "abort").touch()

    def _write(self, files: dict[str, bytes]) -> None:
        for name, data in files.items():
            path = self._root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("r+b" if path.exists() else "wb") as file:
                file.write(data)

    @contextmanager
    def operation(self, kind: str, path: str) -> Iterator[None]:
        self.count += 1
        if self.count == self._at:
            self._go_on()
        if self.count == self._at + self._wait:
            self._write(self._entries)
        with super().operation(kind, path):
            yield


@pytest.mark.parametrize("wait", [0, 5, 40])
def test_during_every_look(
    wait: int, states: list[dict[str, bytes]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = Recreating(tmp_path / "quiet", states, 0, 0)
    assert verify(str(tmp_path / "quiet"), CONFIG, env=env).is_sound

    def pause(share: float = 1.0) -> None:
        if share == BETWEEN_LOOKS:
            env.count = 0

    monkeypatch.setattr(look_again, "pause", pause)
    for number in some(range(1, env.count + 1), 7, first=3):
        root = tmp_path / str(number)
        env = Recreating(root, states, number, wait)
        assert [str(each) for each in verify(str(root), CONFIG, env=env).findings] == [], number
        shutil.rmtree(root)
