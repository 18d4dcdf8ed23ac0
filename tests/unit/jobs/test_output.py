"""Where a job may write: what is refused, what is not, and what is held while it writes in
place."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from logdex.errors import StorageError, UsageError
from logdex.io.env import Env
from logdex.io.name_changes import STAGING_PREFIX
from logdex.jobs.journal import LOCK_NAME
from logdex.jobs.output import check_output, require_empty, staged_output
from logdex.testing import Fault, FaultEnv


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A source's home with the source in it, as a log directory has a partition."""
    (tmp_path / "above" / "home" / "source").mkdir(parents=True)
    return tmp_path / "above" / "home"


def check(output: Path | str, home: Path, *, in_place: bool = False, published: tuple[str, ...] = ()) -> None:
    check_output(str(output), str(home / "source"), home=str(home), published=published, in_place=in_place, env=Env())


@pytest.mark.parametrize("below", ["", "/source", "/source/out", "/out", "/source/../x", "/./source/"])
def test_an_output_in_the_source_or_beside_it_in_its_home_is_refused(home: Path, below: str) -> None:
    with pytest.raises(UsageError, match="lies in") as caught:
        check(f"{home}{below}", home)
    assert caught.value.hint == "choose another --output, or give --in-place"
    (home.parent / "link").symlink_to(home)
    with pytest.raises(UsageError, match="lies in"):
        check(f"{home.parent}/link{below}", home)


def test_a_hint_says_in_place_only_where_that_can_be(home: Path) -> None:
    with pytest.raises(UsageError) as caught:
        check_output(str(home), str(home), in_place=False, may_be_in_place=False, env=Env())
    assert caught.value.hint == "choose another --output"


def test_an_output_around_the_source_is_refused_where_it_would_replace_it(home: Path) -> None:
    check(home.parent, home)
    check(home.parent, home, published=("index", "hom", "source"))
    with pytest.raises(UsageError, match="home, which would be replaced"):
        check(home.parent, home, published=("index", "home"))
    with pytest.raises(UsageError, match="above, which would be replaced"):
        check(home.parent.parent, home, published=("above",))


def test_an_output_that_would_sweep_the_source_away_is_refused(home: Path) -> None:
    left = home.parent / f"{STAGING_PREFIX}1"
    home.rename(left)
    with pytest.raises(UsageError, match="would be replaced"):
        check(left.parent, left)


def test_a_name_that_only_begins_like_the_sources_is_another_one(home: Path) -> None:
    check(f"{home}-out", home)
    check(home.parent / "source", home)


def test_in_place_the_output_is_the_source(home: Path) -> None:
    check(home / "source", home, in_place=True, published=("source",))
    os.symlink(home / "source", home / "link")
    check(home / "link", home, in_place=True)
    for other in (home, home.parent / "out"):
        with pytest.raises(UsageError, match="--in-place writes into"):
            check(other, home, in_place=True)


def test_what_counts_as_empty(tmp_path: Path) -> None:
    out = tmp_path / "out"
    require_empty(str(out), env=Env())
    (out / f"{STAGING_PREFIX}1").mkdir(parents=True)
    (out / LOCK_NAME).touch()
    require_empty(str(out), env=Env())
    (out / "file").touch()
    with pytest.raises(UsageError, match="is not empty"):
        require_empty(str(out), env=Env())


class Lock:
    """What was done with it."""

    def __init__(self) -> None:
        self.log: list[str] = []

    @contextmanager
    def held(self) -> Iterator[None]:
        self.log.append("taken")
        try:
            yield
        finally:
            self.log.append("released")


def test_the_lock_is_held_in_place_only(tmp_path: Path) -> None:
    lock = Lock()
    with staged_output(str(tmp_path), in_place=False, lock=lock.held(), sync=False, env=Env()) as staging:
        assert Path(staging.directory).parent == tmp_path
    assert lock.log == []
    with staged_output(str(tmp_path), in_place=True, lock=lock.held(), sync=False, env=Env()):
        assert lock.log == ["taken"]
    assert lock.log == ["taken", "released"]


def test_the_staging_folder_has_its_own_home_in_place_only(tmp_path: Path) -> None:
    partition = tmp_path / "t-0"
    partition.mkdir()
    for in_place, parent in ((True, partition), (False, tmp_path)):
        writing = staged_output(
            str(tmp_path), in_place=in_place, lock=Lock().held(), staging_home=str(partition), sync=False, env=Env()
        )
        with writing as staging:
            assert Path(staging.directory).parent == parent
    assert os.listdir(partition) == []


def test_the_lock_is_released_whatever_fails(tmp_path: Path) -> None:
    lock, env = Lock(), FaultEnv(str(tmp_path), Fault(1, errno.EACCES))
    with (
        pytest.raises(StorageError),
        staged_output(str(tmp_path / "out"), in_place=True, lock=lock.held(), sync=False, env=env),
    ):
        pass
    with (
        pytest.raises(ZeroDivisionError),
        staged_output(str(tmp_path), in_place=True, lock=lock.held(), sync=False, env=Env()),
    ):
        assert 1 / 0
    assert lock.log == ["taken", "released"] * 2
    assert os.listdir(tmp_path) == []
