"""Kafka directories with files, names and numbers that no broker leaves: clear errors, an end in
time, nothing lost."""

from __future__ import annotations

import itertools
import os
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from logdex import limits
from logdex.errors import CorruptError, LogdexError
from logdex.kafka.files.checkpoints import read_offset_checkpoint
from logdex.kafka.files.file_names import META_PROPERTIES, PARTITION_METADATA
from logdex.kafka.state.leader_epochs import LeaderEpochs
from logdex.kafka.state.producer_snapshot import load_producer_snapshot, read_producer_snapshot
from logdex.kafka.verify import verify
from logdex.primitives.crc32c import crc32c
from tests.cli.helpers import rows_of
from tests.cli.kafka.tiny_logs import usual
from tests.examples import cases, some
from tests.hostile.kafka.hostile import bounded, command, every_way
from tests.unit.kafka.batch.batch_bytes import batch, record

CHECKPOINTS = [
    "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint",
    "replication-offset-checkpoint",
    "cleaner-offset-checkpoint",
]
LONG_MAX = (1 << 63) - 1


def one(offset: int, value: bytes = b"good") -> bytes:
    return batch(record(0, 0, b"k", value), 1, base_offset=offset)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A log directory with one partition of two segments and no derived file."""
    root = tmp_path / "logs"
    (root / "events-0").mkdir(parents=True)
    (root / META_PROPERTIES).write_text("version=1\nnode.id=1\ncluster.id=c\n")
    for base in (0, 2):
        log_path(root, base).write_bytes(one(base) + one(base + 1))
    return root


def log_path(root: Path, base: int, suffix: str = ".log") -> Path:
    return root / "events-0" / f"{base:020d}{suffix}"


def offsets(stdout: str, topic: str = "events") -> list[int]:
    rows = rows_of(stdout)
    return [row["offset"] for row in rows if row["topic"] == topic]


# -- what stands where a file is expected --------------------------------------------------------
def _loop(path: Path) -> None:
    path.symlink_to(path.name)


def _dangling(path: Path) -> None:
    path.symlink_to("nowhere")


def _to_itself(path: Path) -> None:
    path.symlink_to(path.parent, target_is_directory=True)


MAKE: dict[str, Callable[[Path], None]] = {
    "a folder": Path.mkdir,
    "a FIFO": os.mkfifo,
    "a loop": _loop,
    "a dangling link": _dangling,
    "a link to the folder": _to_itself,
}
DERIVED = [f"events-0/{0:020d}{suffix}" for suffix in (".index", ".timeindex", ".txnindex", ".snapshot", ".keyindex")]
SMALL = [*CHECKPOINTS, f"events-0/{PARTITION_METADATA}", "events-0/leader-epoch-checkpoint", ".kafka_cleanshutdown"]


@pytest.mark.parametrize(("name", "make"), cases(itertools.product([*DERIVED, *SMALL], MAKE), 4))
def test_what_is_no_file_hides_no_record(root: Path, name: str, make: str) -> None:
    MAKE[make](root / name)
    found = every_way(root)
    assert offsets(found["cat"].stdout) == [0, 1, 2, 3], found["cat"]


@pytest.mark.parametrize(("name", "make"), cases(itertools.product([*DERIVED, *SMALL[:-1], META_PROPERTIES], MAKE), 6))
def test_verify_names_what_is_no_file_and_goes_on(root: Path, name: str, make: str) -> None:
    assert command("rebuild", root, "--in-place", "--no-sync", "--key-index").exit_code == 0
    (root / name).unlink(missing_ok=True)
    MAKE[make](root / name)
    report = verify(str(root))
    assert {(finding.check, finding.path) for finding in report.findings} == {("unreadable", str(root / name))}
    assert report.messages == 4


@pytest.mark.parametrize("make", MAKE)
def test_a_log_that_is_no_file(root: Path, make: str) -> None:
    MAKE[make](log_path(root, 4))
    found = every_way(root)
    assert "events-0" in found["cat"].stdout + found["cat"].stderr
    assert found["verify"].exit_code == 1
    assert f"{log_path(root, 4)}: byte 0" in found["verify"].stdout
    for name in ("rebuild", "recover"):
        assert found[name].exit_code == 3
        assert str(log_path(root, 4)) in found[name].stdout + found[name].stderr
    assert "1 file of unknown size" in found["recover"].stdout


@pytest.mark.parametrize("name", cases([*SMALL, META_PROPERTIES], 3))
def test_a_small_file_larger_than_any(root: Path, name: str) -> None:
    (root / name).touch()
    is_copied = name.startswith("events-0/")  # with the partition, holes and all
    os.truncate(root / name, limits.CHECKPOINT_FILE_SIZE_BYTES_MAX + 1 if is_copied else 1 << 40)
    found = every_way(root)
    assert offsets(found["cat"].stdout) == [0, 1, 2, 3]
    assert found["verify"].exit_code == 1
    assert (str(root / name) in found["verify"].stdout) == (name != ".kafka_cleanshutdown")
    assert found["recover"].exit_code == 0


@pytest.mark.parametrize("make", MAKE)
@pytest.mark.parametrize("name", cases(["other-0", "orders", META_PROPERTIES], 3))
def test_what_is_no_partition(root: Path, name: str, make: str) -> None:
    (root / name).unlink(missing_ok=True)
    MAKE[make](root / name)
    assert offsets(every_way(root)["cat"].stdout) == [0, 1, 2, 3]


# -- names ---------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "name",
    [
        b"00000000000000000004.log\xff",
        b"\xff\xfe.log",
        f"{LONG_MAX + 1:020d}.log".encode(),
        b"99999999999999999999.log",
        b"-0000000000000000001.log",
        b"4.log",
        "٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٤.log".encode(),
        b"00000000000000000004.log.deleted",
        b"00000000000000000004.log.cleaned",
        b"00000000000000000004.log.swap.swap",
        b"core",
        b".DS_Store",
    ],
)
def test_foreign_files_in_a_partition(root: Path, name: bytes) -> None:
    with open(os.fsencode(root / "events-0") + b"/" + name, "wb") as file:
        file.write(b"anything at all" * 9)
    found = every_way(root)
    assert offsets(found["cat"].stdout) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "name",
    [b"\xff\xfe-0", b"events-99999999999", b"events-2147483648", b"events--1", b"events-", b"-0", b"a" * 200 + b"-7"],
)
def test_odd_partition_names(root: Path, name: bytes) -> None:
    folder = os.fsencode(root) + b"/" + name
    os.mkdir(folder)
    with open(folder + b"/" + f"{0:020d}.log".encode(), "wb") as file:
        file.write(one(0))
    found = every_way(root)
    assert offsets(found["cat"].stdout) == [0, 1, 2, 3]


def test_the_largest_partition_number(root: Path) -> None:
    (root / f"big-{(1 << 31) - 1}").mkdir()
    (root / f"big-{(1 << 31) - 1}" / f"{0:020d}.log").write_bytes(one(0))
    found = every_way(root)
    assert offsets(found["cat"].stdout, "big") == [0]


def test_a_log_directory_in_a_log_directory(root: Path) -> None:
    usual(root / "events-0" / "logs")
    usual(root / "nested-0")
    found = every_way(root)
    assert offsets(found["cat"].stdout) == [0, 1, 2, 3]


# -- segments ------------------------------------------------------------------------------------
def test_logs_without_a_byte(root: Path) -> None:
    for base in (1, 4):
        log_path(root, base).write_bytes(b"")
    found = every_way(root)
    assert offsets(found["cat"].stdout) == [0, 1, 2, 3]


def test_nothing_but_empty_files(tmp_path: Path) -> None:
    (tmp_path / "logs" / "events-0").mkdir(parents=True)
    for suffix in (".log", ".index", ".timeindex", ".txnindex", ".snapshot", ".keyindex"):
        (tmp_path / "logs" / "events-0" / f"{0:020d}{suffix}").write_bytes(b"")
    assert rows_of(every_way(tmp_path / "logs")["cat"].stdout) == []


def test_segments_that_overlap(root: Path) -> None:
    log_path(root, 2).write_bytes(b"".join(map(one, (2, 3, 4, 5))))
    log_path(root, 4).write_bytes(one(4, b"other") + one(5, b"other"))
    found = every_way(root)
    assert offsets(found["cat"].stdout) == [0, 1, 2, 3, 4, 5, 4, 5]
    assert "[segment-overlap]" in found["verify"].stdout


def test_two_segments_of_the_same_offsets(root: Path) -> None:
    log_path(root, 2).write_bytes(log_path(root, 0).read_bytes())
    found = every_way(root)
    assert found["verify"].exit_code == 1
    assert found["recover"].exit_code in (0, 3)


def test_a_base_offset_at_the_end_of_all(root: Path) -> None:
    log_path(root, LONG_MAX).write_bytes(one(LONG_MAX))
    found = every_way(root)
    assert offsets(found["cat"].stdout) == [0, 1, 2, 3, LONG_MAX]


def test_a_batch_too_far_from_its_base(root: Path) -> None:
    log_path(root, 2).write_bytes(one(2) + one(3 + (1 << 31)))
    found = every_way(root)
    assert offsets(found["cat"].stdout) == [0, 1, 2, 3 + (1 << 31)]
    assert "[offset-overflow]" in found["verify"].stdout


def test_large_sparse_files(root: Path) -> None:
    for suffix in (".index", ".timeindex", ".txnindex", ".snapshot", ".keyindex"):
        log_path(root, 2, suffix).write_bytes(b"\0" * 7 + b"\1")
        os.truncate(log_path(root, 2, suffix), 64 << 20)
    os.truncate(log_path(root, 2), 64 << 20)
    place = ["--topic", "events", "--partition", "0"]
    with bounded(400 << 20, 60):
        assert command("info", root).exit_code in (0, 1)
        assert offsets(command("cat", root, "--json").stdout) == [0, 1, 2, 3]
        command("get", root, *place, "--offset", "3")
        command("get", root, *place, "--time", "1000")
        command("query", root, "--topic", "events", "--key", "k")
        assert command("verify", root).exit_code == 1


# -- small files ---------------------------------------------------------------------------------
TEXTS = {
    "a count of a billion": b"0\n1000000000\nevents 0 1\n",
    "a count below zero": b"0\n-1\nevents 0 1\n",
    "a number of 5,000 digits": b"0\n1\nevents 0 " + b"9" * 5000 + b"\n",
    "a version of 5,000 digits": b"9" * 5000 + b"\n1\nevents 0 1\n",
    "offsets below zero": b"0\n1\nevents 0 -5\n",
    "an offset beyond all": b"0\n1\nevents 0 9223372036854775808\n",
    "a partition beyond all": b"0\n1\nevents 4294967296 1\n",
    "digits of another script": "0\n1\nevents 0 ٣\n".encode(),
    "no line end": b"x" * 100_000,
    "zeros": bytes(100_000),
    "a line twice": b"0\n2\nevents 0 1\nevents 0 2\n",
    "far behind the log": b"0\n1\nevents 0 %d\n" % LONG_MAX,
    "underscores": b"0\n1\nevents 0 1_0\n",
}


@pytest.mark.parametrize("text", cases(TEXTS, 3))
def test_small_files_that_say_what_cannot_be(root: Path, text: str) -> None:
    for name in CHECKPOINTS:
        (root / name).write_bytes(TEXTS[text])
    (root / "events-0" / "leader-epoch-checkpoint").write_bytes(TEXTS[text].replace(b"events 0", b"3"))
    (root / "events-0" / PARTITION_METADATA).write_bytes(TEXTS[text])
    (root / ".kafka_cleanshutdown").write_bytes(TEXTS[text])
    assert offsets(every_way(root)["cat"].stdout) == [0, 1, 2, 3]
    for read in (read_offset_checkpoint, LeaderEpochs.load):
        name = CHECKPOINTS[0] if read is read_offset_checkpoint else "events-0/leader-epoch-checkpoint"
        try:
            read(str(root / name))
        except LogdexError as error:
            assert str(root / name) in str(error)  # noqa: PT017  # most are errors, not all
            assert len(str(error)) < 1000  # noqa: PT017


def test_a_checkpoint_of_very_many_lines(root: Path) -> None:
    (root / CHECKPOINTS[0]).write_bytes(b"0\n400000\n" + b"events 0 1\n" * 400_000)
    with bounded(400 << 20):
        assert read_offset_checkpoint(str(root / CHECKPOINTS[0])) != {}
    os.truncate(root / CHECKPOINTS[0], 65 << 20)
    with bounded(100 << 20), pytest.raises(LogdexError, match="at most"):
        read_offset_checkpoint(str(root / CHECKPOINTS[0]))


def snapshot_bytes(count: int, body: bytes = b"", version: int = 1) -> bytes:
    rest = struct.pack(">i", count) + body
    return struct.pack(">hI", version, crc32c(rest)) + rest


@pytest.mark.parametrize(
    "data",
    [
        snapshot_bytes((1 << 31) - 1),
        snapshot_bytes(-1),
        snapshot_bytes(-(1 << 31), bytes(46)),
        snapshot_bytes(1, bytes(45)),
        snapshot_bytes(0, bytes(46)),
        snapshot_bytes(1, b"\xff" * 46),
        snapshot_bytes(2, bytes(92)),
        snapshot_bytes(0, b"", 2),
        snapshot_bytes(1, struct.pack(">qhiqiqiq", LONG_MAX, -5, -7, LONG_MAX, -1, LONG_MAX, -1, LONG_MAX)),
    ],
)
def test_snapshots_that_no_broker_writes(root: Path, data: bytes) -> None:
    log_path(root, 4, ".snapshot").write_bytes(data)
    log_path(root, 2, ".snapshot").write_bytes(data)
    assert offsets(every_way(root)["cat"].stdout) == [0, 1, 2, 3]


def test_a_snapshot_with_an_absurd_count_is_located(tmp_path: Path) -> None:
    with bounded(50 << 20), pytest.raises(CorruptError, match="count"):
        read_producer_snapshot(snapshot_bytes((1 << 31) - 1), path="x.snapshot")
    path = tmp_path / "x.snapshot"
    path.write_bytes(b"")
    os.truncate(path, 1 << 40)
    with bounded(50 << 20), pytest.raises(LogdexError, match="at most"):
        load_producer_snapshot(str(path))


# -- __consumer_offsets --------------------------------------------------------------------------
GARBAGE = [
    (None, None),
    (b"", b""),
    (b"\0", b"\0"),
    (b"\0\1", None),
    (b"\0\1\x7f\xff", b"x"),
    (b"\0\1\xff\xff\xff\xff\0\0\0\0", b"x"),
    (b"\0\1\0\1g\0\1t\0\0\0\0", b"\0\3"),
    (b"\0\1\0\1\xff\0\1t\xff\xff\xff\xff", b"\0\3" + b"\xff" * 40),
    (b"\0\2\0\1g", b"\0\3\0\1c\0\0\0\1\xff\xff\xff\xff" + bytes(8) + b"\x7f\xff\xff\xff"),
    (b"\0\2\0\1g", b"\0\4" + b"\xff" * 30),
    (b"\0\2\0\1g", b"\0\3\0\1c\0\0\0\1\xff\xff\xff\xff" + bytes(8) + b"\x80\0\0\0"),
    (b"\x7f\xff", b"\xff" * 99),
]


def test_garbage_in_consumer_offsets(root: Path) -> None:
    folder = root / "__consumer_offsets-3"
    folder.mkdir()
    records = b"".join(record(at, 0, key, value) for at, (key, value) in enumerate(GARBAGE))
    good = record(0, 0, b"\0\1\0\1g\0\6events\0\0\0\0", struct.pack(">hqih", 3, 2, -1, 0) + struct.pack(">q", 5))
    data = (
        batch(records, len(GARBAGE)) + batch(good, 1, base_offset=50) + batch(b"", 0, base_offset=60, attributes=0x30)
    )
    (folder / f"{0:020d}.log").write_bytes(data)
    found = every_way(root)
    groups = [line for line in found["info"].stdout.splitlines() if line.split()[:3] == ["g", "events", "0"]]
    assert len(groups) == 1, found["info"].stdout
    assert len(offsets(found["cat"].stdout, "__consumer_offsets")) == len(GARBAGE) + 1


# -- files that cannot be read -------------------------------------------------------------------
@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_unreadable_files(root: Path) -> None:
    log_path(root, 0).chmod(0)
    found = every_way(root)
    assert "Permission denied" in found["cat"].stderr


def test_a_process_with_little_address_space(root: Path) -> None:
    """The sparse files again, within 4 GiB of address space in all: nothing reserves by what a
    length says."""
    import resource
    import subprocess
    import sys

    log_path(root, 2, ".snapshot").write_bytes(snapshot_bytes((1 << 31) - 1))
    log_path(root, 2).write_bytes(one(2) + batch(record(0, 0, b"k", b"v"), (1 << 31) - 1, base_offset=9) + one(20))
    limit = 4 << 30
    for words in some((["cat", root], ["verify", root], ["info", root]), 3):
        done = subprocess.run(
            [sys.executable, "-m", "logdex", *map(str, words)],
            capture_output=True,
            text=True,
            check=False,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
        )
        assert done.returncode in (0, 1), done.stderr
        assert "Traceback" not in done.stderr
