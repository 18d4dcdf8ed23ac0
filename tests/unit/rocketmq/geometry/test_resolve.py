from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from logdex.errors import GeometryError, UsageError
from logdex.io.env import Env
from logdex.layout.rocketmq import INDEX_ENTRY, INDEX_HEADER, INDEX_SLOT
from logdex.primitives.java_hash import index_key_hash
from logdex.rocketmq.geometry.index_geometry import infer_index_geometry, pair_of_size
from logdex.rocketmq.geometry.resolve import resolve_config, resolve_in_any_case
from logdex.rocketmq.settings.store_config import StoreConfig
from logdex.testing.store_builder import make_message, write_commit_log


def index_bytes(slots: int, entries: int, puts: int, *, every_put: bool = False, first_offset: int = 0) -> bytearray:
    """An IndexFile with `puts` keys, plainly put."""
    data = bytearray(INDEX_HEADER.size_bytes + slots * INDEX_SLOT.size_bytes + entries * INDEX_ENTRY.size_bytes)
    base = INDEX_HEADER.size_bytes + slots * INDEX_SLOT.size_bytes
    heads: dict[int, int] = {}
    for index in range(1, puts + 1):
        key_hash = index_key_hash(b"T#key%d" % (index % 50))
        slot = key_hash % slots
        entry = INDEX_ENTRY.pack(key_hash, first_offset + 100 * index, 0, heads.get(slot, 0))
        data[base + 20 * index : base + 20 * index + 20] = entry
        heads[slot] = index
    for slot, head in heads.items():
        data[INDEX_HEADER.size_bytes + 4 * slot : INDEX_HEADER.size_bytes + 4 * slot + 4] = head.to_bytes(4, "big")
    count = puts if every_put else len(heads)
    header = (1, 2, first_offset + 100, first_offset + 100 * puts, count, puts + 1) if puts else (0, 0, 0, 0, 0, 1)
    data[: INDEX_HEADER.size_bytes] = INDEX_HEADER.pack(*header)
    return data


@pytest.fixture
def store(tmp_path: Path) -> Path:
    write_commit_log(str(tmp_path), [make_message()], 4096)
    (tmp_path / "index").mkdir()
    (tmp_path / "consumequeue" / "T" / "0").mkdir(parents=True)
    (tmp_path / "consumequeue" / "T" / "0" / f"{0:020d}").write_bytes(bytes(600))
    return tmp_path


def put_index(store: Path, data: bytes | bytearray, number: int = 0) -> str:
    path = store / "index" / f"2026112109373207{number}"
    path.write_bytes(data)
    return str(path)


@pytest.mark.parametrize(("slots", "entries", "puts"), [(97, 500, 499), (97, 500, 300), (1, 50, 10), (5000, 200, 3)])
def test_index_geometry_follows_from_content(store: Path, slots: int, entries: int, puts: int) -> None:
    put_index(store, index_bytes(slots, entries, puts))
    config = resolve_config(str(store))
    assert (config.max_hash_slot_num, config.max_index_num) == (slots, entries)
    assert config.mapped_file_size_commit_log == 4096
    assert config.mapped_file_size_consume_queue == 600


def test_one_harmed_byte_anywhere_gives_the_same_or_no_geometry(store: Path) -> None:
    data = index_bytes(23, 60, 40, first_offset=1 << 33)
    lost = 0
    for at in range(len(data)):
        harmed = bytearray(data)
        harmed[at] ^= 0x5A
        path = put_index(store, harmed)
        try:
            found, _ = infer_index_geometry(Env(), [path])
        except GeometryError:
            lost += 1
        else:
            assert found == (23, 60)
    assert lost < 8  # where the header's offsets and count are


def test_a_file_without_entries_is_ambiguous_and_flags_settle_it(store: Path) -> None:
    put_index(store, index_bytes(97, 500, 0))
    with pytest.raises(GeometryError, match="--max-hash-slot-num"):
        resolve_config(str(store))
    assert resolve_config(str(store), max_hash_slot_num=97).max_index_num == 500
    assert resolve_config(str(store), max_index_num=500).max_hash_slot_num == 97
    both = resolve_config(str(store), max_hash_slot_num=97, max_index_num=500)
    assert (both.max_hash_slot_num, both.max_index_num) == (97, 500)
    with pytest.raises(GeometryError, match="has maxHashSlotNum 7 and maxIndexNum 9"):
        resolve_config(str(store), max_hash_slot_num=7, max_index_num=9)
    with pytest.raises(GeometryError, match="has maxHashSlotNum 98"):
        resolve_config(str(store), max_hash_slot_num=98)
    assert resolve_config(str(store), need_index=False).max_index_num == StoreConfig().max_index_num


def test_what_does_without_the_index_is_told_that_the_geometry_is_a_default(store: Path) -> None:
    put_index(store, index_bytes(97, 500, 0))
    for slots, why in ((None, "--max-hash-slot-num"), (98, "has maxHashSlotNum 98")):
        config, error = resolve_in_any_case(str(store), max_hash_slot_num=slots)
        assert why in str(error)
        assert (config.max_hash_slot_num, config.max_index_num) == (5_000_000, 20_000_000)
        assert "maxHashSlotNum: 5000000, as given" not in config.evidence  # nobody gave it
        assert [line for line in config.evidence if line.startswith("index: the defaults, since")] != []
    config, error = resolve_in_any_case(str(store), max_index_num=500)
    assert (config.max_hash_slot_num, error) == (97, None)


def test_an_unknown_setting_is_refused(store: Path) -> None:
    with pytest.raises(UsageError, match="unknown setting: index_num") as caught:
        resolve_config(str(store), index_num=3)  # type: ignore[call-arg]
    assert "max_index_num" in str(caught.value.hint)


def test_flags_win_over_broker_conf_and_that_over_files(store: Path) -> None:
    conf = store / "broker.conf"
    conf.write_text("mappedFileSizeCommitLog=8192\nmaxHashSlotNum=11\nmaxIndexNum=22\nmessageDelayLevel=2s\n")
    config = resolve_config(str(store), broker_conf=str(conf), max_index_num=33, rocketmq_version="4.7.0")
    assert config.mapped_file_size_commit_log == 8192
    assert (config.max_hash_slot_num, config.max_index_num) == (11, 33)
    assert config.delay_levels_ms == (2000,)
    assert config.dialect.slot_count_every_put
    assert any("broker.conf" in line for line in config.evidence)
    with pytest.raises(UsageError):
        resolve_config(str(store), mapped_file_size_consume_queue=0)


def test_defaults_where_nothing_is_there(tmp_path: Path) -> None:
    config = resolve_config(str(tmp_path))
    assert config == StoreConfig()
    assert config.dialect.version == "5.5.0"
    assert config.evidence == ("version: taken as 5.5.0, the default",)


def test_guesses_are_named(store: Path, tmp_path: Path) -> None:
    nothing = resolve_config(str(tmp_path / "nothing")).assumed
    assert [guess.split()[0] for guess in nothing] == ["mappedFileSizeConsumeQueue", "maxHashSlotNum", "version"]
    given: dict[str, Any] = {"mapped_file_size_consume_queue": 20, "max_hash_slot_num": 5, "max_index_num": 9}
    assert resolve_config(str(tmp_path / "nothing"), **given, rocketmq_version="5.5.0").assumed == ()
    put_index(store, index_bytes(7, 100, 80, every_put=True))
    assert not any("maxIndexNum" in guess or "version" in guess for guess in resolve_config(str(store)).assumed)


def test_slot_counts_tell_the_oldest_engines(store: Path) -> None:
    put_index(store, index_bytes(7, 100, 80, every_put=True))
    assert resolve_config(str(store)).dialect.slot_count_every_put
    put_index(store, index_bytes(7, 100, 80))
    assert not resolve_config(str(store)).dialect.slot_count_every_put


def test_evidence_that_contradicts_is_passed_over_and_said(store: Path) -> None:
    put_index(store, index_bytes(7, 100, 80, every_put=True))
    (store / "abort").write_text("12")
    config = resolve_config(str(store))
    assert config.dialect.version == "4.7.0"
    assert any("contradicts" in line for line in config.evidence)


def test_pairs_of_a_size() -> None:
    assert pair_of_size(420_000_040, slots=5_000_000) == (5_000_000, 20_000_000)
    assert pair_of_size(420_000_040, entries=20_000_000) == (5_000_000, 20_000_000)
    assert pair_of_size(420_000_041, entries=20_000_000) is None
    assert pair_of_size(100, slots=1 << 40) is None
    assert pair_of_size(100) is None
