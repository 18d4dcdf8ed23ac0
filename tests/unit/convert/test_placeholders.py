"""A recovered store is converted, filtered, exported and imported without the placeholders of what
was lost, which is no further loss."""

from __future__ import annotations

from pathlib import Path

from logdex.convert.export.job import export
from logdex.convert.filter.store import filter_store
from logdex.convert.load.job import load
from logdex.convert.sources.rocketmq import StoreSource
from logdex.convert.translate import convert
from logdex.kafka.snapshot.log_dir_snapshot import LogDirSnapshot
from logdex.rocketmq.recover.job import recover
from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot
from tests.unit.rocketmq.small_stores import CONFIG, build, message

COUNT = 40
NOTE = "1 placeholder left out: logdex recover had lost bytes there"


def recovered(home: Path) -> Path:
    build(home / "store", [message(number, keys=f"k-{number}", body=b"x" * 50) for number in range(COUNT)])
    with StoreSnapshot(home / "store", config=CONFIG) as snapshot:
        at = [offset for offset, _ in snapshot.scan().items()][20]
        path, position = snapshot.commit_log.place_of(at)
    with open(path, "r+b") as file:
        file.seek(position + 4)  # the magic code
        file.write(b"\xff")
    report = recover(str(home / "store"), str(home / "recovered"), config=CONFIG)
    assert report.placeholders == 1
    return home / "recovered"


def test_placeholders(tmp_path: Path) -> None:
    store = recovered(tmp_path)
    source = StoreSource(str(store), settings={"config": CONFIG})
    report = convert(source, str(tmp_path / "logs"), sync=False)
    assert (report.messages, report.losses, report.notes) == (COUNT - 1, [], [NOTE])
    with LogDirSnapshot(str(tmp_path / "logs")) as logs:
        assert sum(1 for _ in logs.scan()) == COUNT - 1
    with StoreSnapshot(store, config=CONFIG) as snapshot:
        assert report.bytes <= snapshot.valid_end_offset
        report = filter_store(snapshot, snapshot.scan(), tmp_path / "filtered", source=str(store), sync=False)
    assert (report.messages, report.losses, report.notes) == (COUNT - 1, [], [NOTE])
    with StoreSnapshot(tmp_path / "filtered", config=CONFIG) as snapshot:
        assert {one.topic for one in snapshot.scan()} == {message(0).topic}
    export(source, str(tmp_path / "lake"), sync=False)
    report = load(str(tmp_path / "lake"), str(tmp_path / "loaded"), "rocketmq", sync=False)
    assert (report.messages, report.losses) == (COUNT - 1, [])
    assert NOTE in report.notes
