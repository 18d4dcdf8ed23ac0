"""What Kafka's `rebuild` and `recover` publish, killed before and after every change of names and every fsync."""

from __future__ import annotations

import pytest

from tests.crash.kafka.publications import Publications
from tests.crash.publications import EVERY_KILL, OldDiskEnv, check_killed
from tests.crash.trees import Fresh


@pytest.fixture(scope="module")
def publications(tmp_path_factory: pytest.TempPathFactory) -> Publications:
    return Publications(tmp_path_factory.mktemp("publications"))


@EVERY_KILL
@pytest.mark.parametrize("below", ["", "events-1"], ids=["log directory", "partition"])
def test_recover_in_place(publications: Publications, fresh: Fresh, below: str, every: int) -> None:
    check_killed(publications.recover_in_place(below), fresh, every)


@EVERY_KILL
def test_recover_in_place_where_files_have_no_second_names(
    publications: Publications, fresh: Fresh, every: int
) -> None:
    check_killed(publications.recover_in_place("events-1"), fresh, every, OldDiskEnv, may_miss=True)


@EVERY_KILL
def test_recover_elsewhere(publications: Publications, fresh: Fresh, every: int) -> None:
    check_killed(publications.recover_elsewhere(), fresh, every)


@EVERY_KILL
@pytest.mark.parametrize("below", ["", "events-1"], ids=["log directory", "partition"])
def test_rebuild_in_place(publications: Publications, fresh: Fresh, below: str, every: int) -> None:
    check_killed(publications.rebuild_in_place(below), fresh, every)


@EVERY_KILL
@pytest.mark.parametrize("had_old", [False, True], ids=["new output", "old output"])
def test_rebuild_elsewhere(publications: Publications, fresh: Fresh, had_old: bool, every: int) -> None:
    check_killed(publications.rebuild_elsewhere(had_old=had_old), fresh, every)
