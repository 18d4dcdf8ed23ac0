"""logdex rebuild: the broker's bytes, the report, where it may write, and how it ends."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.cli.helpers import run, run_json
from tests.directories import tree_hash
from tests.golden import rocketmq as golden
from tests.unit.io.locks import held_elsewhere

REPORT_FIELDS = {"engine", "tasks", "messages", "bytes", "files", "seconds", "lossy"}


def digests(root: Path) -> list[tuple[str, str]]:
    """(folder/name, SHA-256) of ConsumeQueue files; IndexFiles by their order, their names follow
    another clock."""
    found = []
    for part in ("consumequeue", "index"):
        for place, path in enumerate(sorted(path for path in (root / part).rglob("*") if path.is_file())):
            name = str(path.relative_to(root)) if part == "consumequeue" else f"index/{place}"
            found.append((name, hashlib.sha256(path.read_bytes()).hexdigest()))
    return found


@pytest.mark.parametrize("name", ["tiny-5.5.0", "tiny-4.7.0", "tiny-4.9.7", "tiny-broker"])
def test_equals_the_brokers_files(name: str, golden_store: Any, tmp_path: Path) -> None:
    store, version = golden_store(name), golden.manifest(name)["rocketmq"]
    before = tree_hash(store)
    (report,) = run_json("rebuild", store, "--output", tmp_path / "out", "--rocketmq-version", version)
    assert digests(tmp_path / "out") == digests(store)
    assert report.keys() >= REPORT_FIELDS
    assert report["engine"] == "local"
    assert report["messages"] == len(golden.manifest(name)["messages"])
    assert report["files"] == len(digests(store))
    assert report["lossy"] is False
    assert tree_hash(store) == before


def test_text_report(golden_store: Any, tmp_path: Path) -> None:
    result = run("rebuild", golden_store("tiny-5.5.0"), "-o", tmp_path / "out")
    assert result.exit_code == 0
    assert "252 messages" in result.stdout
    assert "37 files" in result.stdout
    assert result.stdout.splitlines()[-1].startswith("  next ")
    assert result.stderr == ""


def test_index_names_in_a_time_zone(golden_store: Any, tmp_path: Path) -> None:
    store = golden_store("tiny-5.5.0")
    (report,) = run_json("rebuild", store, "-o", tmp_path / "east", "--time-zone", "+08:00")
    assert report["time_zone"] == "+08:00, as given"
    result = run("rebuild", store, "-o", tmp_path / "utc", "--time-zone", "UTC")
    assert "in UTC, as given" in result.stdout
    east, utc = (sorted(path.name for path in (tmp_path / out / "index").iterdir()) for out in ("east", "utc"))
    assert int(east[0][8:10]) == (int(utc[0][8:10]) + 8) % 24
    (tmp_path / "east" / "commitlog").symlink_to(store / "commitlog")
    assert run("verify", tmp_path / "east").exit_code == 0


def test_guesses_are_said(golden_copy: Any, tmp_path: Path) -> None:
    store = golden_copy("tiny-5.3.3")
    for folder in ("consumequeue", "index", "lock", "checkpoint", "abort.bak"):
        shutil.rmtree(store / folder) if (store / folder).is_dir() else (store / folder).unlink(missing_ok=True)
    result = run("rebuild", store, "-o", tmp_path / "out")
    assert result.exit_code == 0
    assert "assumed maxHashSlotNum 5000000" in result.stderr
    assert "assumed version 5.5.0" in result.stderr
    flags = ["--rocketmq-version", "5.3.3", "--max-hash-slot-num", "211", "--max-index-num", "600"]
    flags += ["--mapped-file-size-consume-queue", "1200"]
    (report,) = run_json("rebuild", store, "-o", tmp_path / "out", *flags)
    (guess,) = report["assumed"]  # the store has delayed messages, and no ConsumeQueue that shows their delays
    assert guess.startswith("messageDelayLevel level 3 is 10s")
    (report,) = run_json("rebuild", store, "-o", tmp_path / "out", *flags, "--message-delay-level", "1s 5s 10s")
    assert report["assumed"] == []


def test_geometry_flags_are_used(golden_store: Any, tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("mappedFileSizeConsumeQueue=2000\nmaxHashSlotNum = 7\nmaxIndexNum: 99\n")
    run_json("rebuild", golden_store("tiny-crash"), "-o", tmp_path / "conf", "--broker-conf", conf)
    sizes = {path.stat().st_size for path in (tmp_path / "conf" / "index").iterdir()}
    assert sizes == {40 + 7 * 4 + 99 * 20}
    assert {path.stat().st_size for path in (tmp_path / "conf" / "consumequeue").rglob("0" * 20)} == {2000}
    flags = ["--mapped-file-size-consume-queue", "4000", "--max-hash-slot-num", "9", "--max-index-num", "50"]
    run_json("rebuild", golden_store("tiny-crash"), "-o", tmp_path / "flags", "--broker-conf", conf, *flags)
    assert {path.stat().st_size for path in (tmp_path / "flags" / "index").iterdir()} == {40 + 9 * 4 + 50 * 20}
    assert {path.stat().st_size for path in (tmp_path / "flags" / "consumequeue").rglob("0" * 20)} == {4000}


def test_what_is_cut_off_is_lossy(golden_copy: Any, tmp_path: Path) -> None:
    store = golden_copy("tiny-5.5.0")
    with (store / "commitlog" / f"{32768:020d}").open("r+b") as file:
        file.seek(100)
        file.write(b"\xff" * 50)
    (report,) = run_json("rebuild", store, "-o", tmp_path / "out", exit_code=3)
    assert report["lossy"] is True
    assert f"{32768:020d}" in report["losses"][0]
    text = run("rebuild", store, "-o", tmp_path / "out")
    assert text.exit_code == 3
    assert "the log ends at offset 32768" in text.stderr
    way_on = f"\n        logdex recover {store} --output DIR recovers whole messages behind that end, too\n"
    assert text.stderr.endswith(way_on)


def test_in_place_says_what_it_does_and_keeps_what_was_there(golden_copy: Any) -> None:
    store = golden_copy("tiny-5.5.0")
    before = digests(store)
    result = run("rebuild", store, "--in-place")
    assert result.exit_code == 0
    assert "kept under a dated name" in result.stderr
    kept = [path.name for path in store.iterdir() if path.name.startswith(("consumequeue.", "index."))]
    assert len(kept) == 2
    assert all(name in result.stdout for name in kept)
    assert digests(store) == before


def test_in_place_is_refused_while_a_broker_holds_the_lock(golden_copy: Any) -> None:
    store = golden_copy("tiny-5.5.0")
    before = tree_hash(store)
    with held_elsewhere(store / "lock", size_bytes=1):
        result = run("rebuild", store, "--in-place")
        assert result.exit_code == 2
        assert "a broker runs on this store" in result.stderr
    assert tree_hash(store) == before
    assert run("rebuild", store, "--in-place").exit_code == 0


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ([], "where to?"),
        (["--in-place", "--output", "x"], "exclude each other"),
        (["--output", "{store}"], "lies in"),
        (["--output", "{store}/rebuilt"], "lies in"),
        (["--output", "x", "--max-index-num", "1"], "maxIndexNum"),
        (["--output", "x", "--rocketmq-version", "new"], "rocketmq version"),
        (["--output", "x", "--time-zone", "Mars"], "time zone 'Mars'"),
        (["--output", "x", "--broker-conf", "{store}/nothing"], "no such file"),
    ],
)
def test_what_cannot_be_is_refused(
    more: list[str], words: str, golden_store: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    store = golden_store("tiny-5.5.0")
    before = tree_hash(store)
    result = run("rebuild", store, *(argument.format(store=store) for argument in more))
    assert (result.exit_code, result.stdout) == (2, "")
    assert words in result.stderr
    assert len(result.stderr.splitlines()) <= 2
    assert tree_hash(store) == before
    assert list(tmp_path.glob("x/*")) == []


def test_a_second_run_keeps_the_first_output(golden_store: Any, tmp_path: Path) -> None:
    run_json("rebuild", golden_store("tiny-crash"), "-o", tmp_path / "out")
    (report,) = run_json("rebuild", golden_store("tiny-crash"), "-o", tmp_path / "out", "--no-sync")
    assert set(report["kept"]) == {"consumequeue", "index", "checkpoint"}  # the store has crashed
    assert all(Path(path).exists() for path in report["kept"].values())
