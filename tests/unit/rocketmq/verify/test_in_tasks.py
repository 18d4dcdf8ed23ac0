"""`verify` of a store in tasks: how it is divided does not change what is reported."""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random
from typing import Any

import pytest

from logdex.errors import MissingFileError
from logdex.io.env import DEFAULT_ENV
from logdex.jobs.tasks import LocalRunner
from logdex.rocketmq.rebuild import rebuild
from logdex.rocketmq.settings.store_config import StoreConfig
from logdex.rocketmq.verify import verify
from logdex.rocketmq.verify.proven.prove import prove
from logdex.testing.store_builder import make_message, write_commit_log
from tests.examples import cases, some
from tests.golden import rocketmq as golden
from tests.unit.kafka.verify.test_in_tasks import Elsewhere, facts
from tests.unit.rocketmq.verify.store_harm import Store, config_of
from tests.unit.rocketmq.verify.test_harm import HARMS, NAME

CUT_BYTES = 2000
"""Some messages, so that even small stores have many parts."""
JOBS = some((5, 2), 2)
SIZES = StoreConfig(
    mapped_file_size_commit_log=1 << 17,
    mapped_file_size_consume_queue=20 * 300,
    max_hash_slot_num=500,
    max_index_num=1500,
)


def check(root: Path, config: StoreConfig, **more: Any) -> dict[str, Any]:
    """Checks a store in one task and in several, and holds the reports to be equal."""
    told = facts(verify(str(root), config, cut_bytes=CUT_BYTES, **more))
    for jobs in JOBS:
        runner = LocalRunner(jobs=jobs)
        assert facts(verify(str(root), config, cut_bytes=CUT_BYTES, runner=runner, **more)) == told
        assert runner.tasks > 2
    return told


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(golden.unpack(NAME, tmp_path), NAME)


@pytest.mark.parametrize("name", cases(HARMS, 16))
def test_one_harm(store: Store, name: str) -> None:
    HARMS[name](store)
    assert check(store.root, store.config)["findings"] == 1


@pytest.mark.parametrize("seed", cases(range(16), 16))
def test_many_harms(seed: int, store: Store) -> None:
    chance = Random(seed)
    for name in chance.sample(sorted(HARMS), 6):
        try:
            HARMS[name](store)
        except (OSError, ValueError, AssertionError, StopIteration):
            continue  # what it harms is gone
    assert check(store.root, store.config)["findings"] > 1
    for max_findings in (0, 1, 3):
        check(store.root, store.config, max_findings=max_findings)
    check(store.root, store.config, checks=["consume-queue-entry", "index-link"])


@pytest.mark.parametrize("name", cases(golden.NAMES, 8))
def test_golden_stores(name: str, golden_store: Any) -> None:
    check(golden_store(name), config_of(name))


@pytest.mark.parametrize("seed", cases(range(64), 32))
def test_changed_bytes(seed: int, store: Store) -> None:
    chance = Random(seed)
    files = sorted(path for path in store.root.rglob("[02]*") if path.is_file() and path.stat().st_size)
    for path in chance.choices(files, k=chance.randint(1, 20)):
        name = str(path.relative_to(store.root))
        store.change(name, chance.randrange(path.stat().st_size), 1 << chance.randrange(8))
    check(store.root, store.config, max_findings=chance.choice([1, 5, 1000]))


def many(path: Path) -> Path:
    """A sound store with several files of each kind."""
    rows = [
        make_message(
            b"Topic%d" % (i % 3),
            queue_offset=i // 3,
            body=b"body %d" % i * (1 + i % 7),
            store_timestamp_ms=1_700_000_000_000 + i * 300,
            properties=[(b"KEYS", b"key-%d" % i), (b"UNIQ_KEY", b"%032X" % i)],
        )
        for i in range(3000)
    ]
    write_commit_log(str(path), rows, SIZES.mapped_file_size_commit_log)
    rebuild(str(path), str(path), SIZES, in_place=True, sync=False)
    return path


def test_tasks_prove_nearly_all_of_a_sound_store(tmp_path: Path) -> None:
    root = many(tmp_path / "store")
    runs = prove(LocalRunner(jobs=3), str(root), SIZES, CUT_BYTES, DEFAULT_ENV)
    proven = sum(run.messages for run in runs)
    assert proven > 2500
    told = check(root, SIZES)
    assert (told["messages"], told["findings"]) == (3000, 0)


def test_keys_without_entries(tmp_path: Path) -> None:
    root = many(tmp_path / "store")
    for path in sorted((root / "index").iterdir())[-2:]:
        path.unlink()
    assert "index-missing-range" in str(check(root, SIZES)["told"])
    for path in (root / "index").iterdir():
        path.unlink()
    check(root, SIZES)
    (root / "abort").write_bytes(b"1")
    check(root, SIZES)


def test_a_topic_without_queues(tmp_path: Path) -> None:
    root = many(tmp_path / "store")
    shutil.rmtree(root / "consumequeue" / "Topic1")
    told = check(root, SIZES)
    assert [each["check"] for each in told["told"] if "check" in each] == ["consume-queue-missing"]
    assert "1000 messages" in str(told["told"]).replace(",", "")
    shutil.rmtree(root / "consumequeue")
    assert check(root, SIZES)["findings"] == 1


def test_one_file_by_itself(store: Store) -> None:
    path = store.root / store.messages[0][0]
    store.change(store.plain_message(20)[0], store.plain_message(20)[1] + 35)
    check(path, store.config)


def test_progress_reaches_what_was_read(tmp_path: Path) -> None:
    root = many(tmp_path / "store")
    for jobs in (1, 4):
        said: list[tuple[int, int]] = []
        runner = LocalRunner(lambda *totals, said=said: said.append(totals), jobs=jobs)
        report = verify(str(root), SIZES, runner=runner, cut_bytes=CUT_BYTES)
        assert said == sorted(said)
        assert said[-1] == (report.messages, report.bytes)


def test_a_worker_that_does_not_see_the_store(tmp_path: Path) -> None:
    root = many(tmp_path / "store")
    with pytest.raises(MissingFileError, match="a worker does not see it"):
        verify(str(root), SIZES, runner=Elsewhere(root, jobs=2), cut_bytes=CUT_BYTES)


def test_what_was_proven_before_a_broker_started_does_not_count(tmp_path: Path) -> None:
    """The tasks prove a store, and then a broker writes another log in its place."""
    root = many(tmp_path / "store")

    class Replaced(LocalRunner):
        def run(self, name: str, function: Any, tasks: Any) -> list[Any]:
            results = super().run(name, function, tasks)
            if len(tasks) > 1:
                for path in sorted((root / "commitlog").iterdir())[1:]:
                    path.unlink()
                (root / "abort").write_bytes(b"1")
            return results

    report = verify(str(root), SIZES, runner=Replaced(jobs=2), cut_bytes=CUT_BYTES)
    assert facts(report) == facts(verify(str(root), SIZES, cut_bytes=CUT_BYTES))
    assert report.messages < 1000
