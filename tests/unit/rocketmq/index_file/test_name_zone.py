"""The time zone in which IndexFiles are named."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from logdex.errors import UsageError
from logdex.io.env import DEFAULT_ENV
from logdex.jobs.tasks import LocalRunner
from logdex.rocketmq.index_file.derive import index_file_name
from logdex.rocketmq.index_file.index_service import IndexService
from logdex.rocketmq.index_file.name_zone import resolve_name_zone
from logdex.rocketmq.message_store.message_store import MessageStore
from logdex.rocketmq.message_store.put.message import Message
from logdex.rocketmq.rebuild import rebuild, rebuild_on
from logdex.rocketmq.settings.time_zone import fixed_zone, parse_time_zone
from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot
from tests.unit.rocketmq.small_stores import CONFIG, MESSAGES, START_MS, build

HOUR_MS = 3_600_000
SIZES: dict[str, Any] = {
    "mapped_file_size_commit_log": CONFIG.mapped_file_size_commit_log,
    "mapped_file_size_consume_queue": CONFIG.mapped_file_size_consume_queue,
    "max_hash_slot_num": CONFIG.max_hash_slot_num,
    "max_index_num": CONFIG.max_index_num,
}


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """A machine whose zone a test sets."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield monkeypatch
    monkeypatch.undo()
    time.tzset()


def name_files(root: Path, offset_ms: int, late_ms: int = 1_234) -> None:
    """The IndexFiles get the names that a broker in some zone gives them."""
    files = sorted((root / "index").iterdir())
    for number, path in enumerate(files):
        begin_ms = int.from_bytes(path.read_bytes()[:8], "big")
        path.rename(path.with_name("x" + index_file_name(begin_ms + late_ms + number, None, fixed_zone(offset_ms))))
    for path in (root / "index").iterdir():
        path.rename(path.with_name(path.name[1:]))


@pytest.mark.parametrize("text", ["+08:00", "UTC+0800", "Asia/Shanghai"])
def test_names_in_a_given_zone(text: str) -> None:
    assert index_file_name(1_700_000_000_123, None, parse_time_zone(text)) == "20231115061320123"


def test_names_west_of_utc_and_at_the_ends_of_time() -> None:
    west, east = fixed_zone(-5 * HOUR_MS), fixed_zone(14 * HOUR_MS)
    assert index_file_name(1_700_000_000_123, None, west) == "20231114171320123"
    assert index_file_name(1_700_000_000_122, "20231114171320123", west) == "20231114171320124"
    assert index_file_name(-5, None, west) == "19691231190000000"
    assert index_file_name(1 << 62, None, east) == "99991231140000000"


@pytest.mark.parametrize("text", ["", "+25:00", "+08:99", "Nowhere/Town", "../etc/passwd", "\0", "8"])
def test_no_time_zone(text: str) -> None:
    with pytest.raises(UsageError, match="time zone"):
        parse_time_zone(text)


@pytest.mark.parametrize("hours", [-9.5, -5, 0, 5.75, 8])
def test_the_files_show_the_zone(tmp_path: Path, machine: pytest.MonkeyPatch, hours: float) -> None:
    root = build(tmp_path / "store", MESSAGES)
    name_files(root, int(hours * HOUR_MS))
    names = sorted(path.name for path in (root / "index").iterdir())
    report = rebuild(str(root), str(tmp_path / "out"), CONFIG)
    assert report.time_zone.endswith(", as the IndexFiles are named")
    rebuilt = sorted(path.name for path in (tmp_path / "out" / "index").iterdir())
    assert all(after <= before for before, after in zip(names, rebuilt, strict=True))
    assert rebuilt[-1][:10] == names[-1][:10]
    on = rebuild_on(LocalRunner(), str(root), str(tmp_path / "on"), CONFIG, time_zone="-03:00")
    assert on.time_zone == "-03:00, as given"
    assert min(path.name for path in (tmp_path / "on" / "index").iterdir()) == index_file_name(
        START_MS, None, fixed_zone(-3 * HOUR_MS)
    )


def test_a_broker_west_goes_on_behind_the_rebuilt_files(tmp_path: Path, machine: pytest.MonkeyPatch) -> None:
    root = build(tmp_path / "store", MESSAGES)
    name_files(root, -5 * HOUR_MS)
    rebuild(str(root), str(root), CONFIG, in_place=True)
    last = max(path.name for path in (root / "index").iterdir())
    next_ms = max(message.store_timestamp_ms for message in MESSAGES) + 5_000
    assert index_file_name(next_ms, None, fixed_zone(-5 * HOUR_MS)) > last


def test_the_newest_files_decide(tmp_path: Path, machine: pytest.MonkeyPatch) -> None:
    root = build(tmp_path / "store", MESSAGES)
    machine.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    files = sorted((root / "index").iterdir())
    assert len(files) >= 4
    for number, path in enumerate(files):  # summer time ended before the last but one
        begin_ms = int.from_bytes(path.read_bytes()[:8], "big")
        hours = -7 if number < len(files) - 2 else -8
        path.rename(
            path.with_name(index_file_name(begin_ms + 24 * number * HOUR_MS, None, fixed_zone(hours * HOUR_MS)))
        )
        shown = path.with_name(index_file_name(begin_ms + 24 * number * HOUR_MS, None, fixed_zone(hours * HOUR_MS)))
        header = bytearray(shown.read_bytes())
        header[:8] = (begin_ms + 24 * number * HOUR_MS - 900).to_bytes(8, "big")
        shown.write_bytes(header)
    found = resolve_name_zone(str(root / "index"), None, env=DEFAULT_ENV)
    assert found.text == "-08:00, as the IndexFiles are named"


def test_else_the_machine_decides(tmp_path: Path, machine: pytest.MonkeyPatch) -> None:
    root = build(tmp_path / "store", MESSAGES)  # named exactly after the first entries: no evidence
    assert (
        resolve_name_zone(str(root / "index"), None, env=DEFAULT_ENV).text
        == "UTC, as on this machine (--time-zone states another)"
    )
    machine.setenv("TZ", "America/Lima")
    time.tzset()
    found = resolve_name_zone(str(root / "index"), None, env=DEFAULT_ENV)
    assert found.text.startswith("-05:00, as on this machine")
    assert found.zone.local_ms(START_MS) == START_MS - 5 * HOUR_MS
    name_files(root, 8 * HOUR_MS, late_ms=5 * 60_000)  # created late, from a log that was dispatched anew
    assert resolve_name_zone(str(root / "index"), None, env=DEFAULT_ENV).zone == found.zone
    assert resolve_name_zone(str(root / "index"), "local", env=DEFAULT_ENV).text == "-05:00, as given"


@pytest.mark.parametrize("given", [None, "Asia/Shanghai"])
def test_an_index_service_names_new_files_in_a_zone(given: str | None, tmp_path: Path) -> None:
    """A broker west of UTC names its files by local time; a name by UTC would sort behind its next
    ones."""
    root = build(tmp_path / "store", MESSAGES)
    name_files(root, -5 * HOUR_MS)
    with StoreSnapshot(root, config=CONFIG) as store:
        last = [*store.scan()][-1]
    before = {path.name for path in (root / "index").iterdir()}
    later = replace(last, store_timestamp_ms=last.store_timestamp_ms + 30 * HOUR_MS)
    with IndexService(root / "index", CONFIG, writable=True, time_zone=given) as service:
        while len(service.files) == len(before):
            service.build_index(later)
    (new,) = {path.name for path in (root / "index").iterdir()} - before
    zone = fixed_zone(-5 * HOUR_MS) if given is None else parse_time_zone(given)
    assert new == index_file_name(later.store_timestamp_ms, None, zone)


def test_a_message_store_goes_on_in_the_zone_of_the_files(tmp_path: Path) -> None:
    root = build(tmp_path / "store", MESSAGES)
    name_files(root, -5 * HOUR_MS)
    before = {path.name for path in (root / "index").iterdir()}
    now_ms = START_MS + 90 * HOUR_MS
    with MessageStore.open(root, background=False, clock_ms=lambda: now_ms, rocketmq_version="5.5.0", **SIZES) as store:
        for _ in range(CONFIG.max_index_num):
            assert store.put_message(Message(topic="T", body=b"", keys=["k"])).is_stored
    new = {path.name for path in (root / "index").iterdir()} - before
    assert min(new) == index_file_name(now_ms, None, fixed_zone(-5 * HOUR_MS))
