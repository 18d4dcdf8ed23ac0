"""What `verify` prints to mend a finding is carried out, for every harm: nothing is found then, and
nothing is lost."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import logdex.kafka.verify
from logdex.io.env import Env
from logdex.kafka.columns.record_columns import read_record_batches
from logdex.kafka.snapshot.log_dir_snapshot import open_kafka
from logdex.kafka.verify import CHECKS
from logdex.testing import BadSectorsEnv
from tests.mending import Finding, Mending, let_mode_decide, unknown_mends
from tests.unit.kafka.verify.log_harm import CONFIG, PARTITION, SECOND, make_log_dir
from tests.unit.kafka.verify.test_harm import HARMS

Harm = Callable[[Path], object]

FLAGS = ("--index-interval-bytes", str(CONFIG.index_interval_bytes))
ELSEWHERE = {"unfinished-publication": "tests/crash and tests/interop run the command again that was killed"}


def directory_for(name: str) -> Harm:
    """A directory in the place of a file."""

    def harm(root: Path) -> None:
        (root / name).unlink(missing_ok=True)
        (root / name).mkdir()

    return harm


MORE: dict[str, tuple[str, Harm]] = {
    "only-snapshot: a bit": ("producer-snapshot", lambda root: only_snapshot(root)),
    "log-missing: the log": ("log-missing", lambda root: (root / f"{SECOND}.log").unlink()),
    "unreadable: a directory for a log": ("unreadable", directory_for(f"{SECOND}.log")),
    "unreadable: a directory for an index": ("unreadable", directory_for(f"{SECOND}.index")),
    "unreadable: a directory for a snapshot": ("unreadable", directory_for(f"{SECOND}.snapshot")),
}


def only_snapshot(root: Path) -> None:
    """The only snapshot is damaged: without it, a broker would know no producers after a clean
    end."""
    *others, last = sorted((root / PARTITION).glob("*.snapshot"))
    for path in others:
        path.unlink()
    last.write_bytes(last.read_bytes()[:-1])


CASES: dict[str, Harm] = {f"{check}: {what}": harm for check, what, harm, *_ in HARMS}
CASES |= {name: harm for name, (_, harm) in MORE.items()}
EACH_MEND = {"batch-crc", "batch-count", "batch-leader-epoch", "checkpoint-malformed", "checkpoint-offset", "file-name"}
EACH_MEND |= {"key-index", "leader-epoch", "log-missing", "meta-properties", "offset-index-position", "torn-tail"}
EACH_MEND |= {"producer-sequence", "producer-snapshot", "producer-state", "segment-overlap", "txn-index-missing"}
_FIRST = {check: f"{check}: {what}" for check, what, *_ in reversed(HARMS)}
DEFAULT = {*(_FIRST[check] for check in EACH_MEND), "checkpoint-offset: a snapshot", *MORE}
"""Those of the default run: each mend once. `scripts/test --all` takes all."""


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_log_dir(tmp_path_factory.mktemp("sound"))


def rows(root: Path) -> dict[int, bytes | None]:
    """All values that a scan returns, and those in lost+found, by offset."""
    with open_kafka(str(root / PARTITION)) as snapshot:
        found = {record.offset: record.value for record in snapshot.scan(control=True).records()}
    for path in root.glob("*/lost+found/*"):  # what a recovery could not place among the others
        for batch in read_record_batches(str(path), columns=["offset", "value"], skip_control=False):
            found |= dict(zip(*(batch.column(name).to_pylist() for name in ("offset", "value")), strict=True))
    return found


def mended(name: str, sound: Path, tmp_path: Path) -> tuple[Mending, list[Finding]]:
    """A log directory of which the harm `name` is mended, and what is found then."""
    root = Path(shutil.copytree(sound, tmp_path / "the logs"))
    CASES[name](root)
    whole = rows(sound)
    before = whole  # where there is no .log to read: the mend restores it
    if not (root / f"{SECOND}.log").is_dir():
        before = {offset: value for offset, value in rows(root).items() if whole.get(offset) == value}
    mending = Mending(root, sound, tmp_path, FLAGS)
    assert mending.verify(), "nothing is found"
    left = mending.mend()
    assert before.items() <= rows(root).items()
    return mending, left


UNREADABLE = [".log", ".index", ".timeindex", ".txnindex"]


def mended_unreadable(suffix: str, sound: Path, tmp_path: Path) -> Mending:
    """A log directory of which the disk cannot read a file of a segment, mended to another disk."""
    root = Path(shutil.copytree(sound, tmp_path / "the logs"))
    whole, path = rows(sound), root / f"{SECOND}{suffix}"
    mending = Mending(root, sound, tmp_path, FLAGS)
    with pytest.MonkeyPatch.context() as patch:
        disk = BadSectorsEnv({str(path): [(0, 16)]})
        patch.setattr(Env, "open_read", lambda _, path: disk.open_read(path))
        found = mending.verify()
        (finding,) = [each for each in found if each["path"] == str(path)]
        mending.carry_out(finding)
    assert finding["check"] == "unreadable" or suffix == ".log"
    assert mending.mend() == []
    *_, end = sorted(int(each.stem) for each in (sound / PARTITION).glob("*.log"))
    lost = range(int(Path(SECOND).name), end) if suffix == ".log" else range(0)
    assert {offset: value for offset, value in whole.items() if offset not in lost}.items() <= rows(root).items()
    return mending


@pytest.mark.parametrize("suffix", UNREADABLE)
def test_what_the_disk_cannot_read_is_mended(suffix: str, sound: Path, tmp_path: Path) -> None:
    mending = mended_unreadable(suffix, sound, tmp_path)
    assert mending.mends[0].startswith("logdex recover " if suffix == ".log" else "logdex rebuild ")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in DEFAULT else pytest.mark.slow) for name in CASES]
)
def test_a_mend_mends(name: str, sound: Path, tmp_path: Path) -> None:
    mending, left = mended(name, sound, tmp_path)
    assert left == []
    commands = [mend for mend in mending.mends if mend.startswith("logdex ")]
    assert all(mend.endswith(" --output DIR --index-interval-bytes 100") for mend in commands), commands
    assert all(f"'{tmp_path}/the logs'" in mend for mend in commands)


def test_every_check_has_a_case() -> None:
    """A check whose mend is carried out by no case here fails this test."""
    checks = {check for check, *_ in HARMS} | {check for check, _ in MORE.values()}
    assert checks | set(ELSEWHERE) == set(CHECKS)


def test_every_mend_is_one_that_these_tests_carry_out() -> None:
    assert unknown_mends(logdex.kafka.verify) == []


def test_a_file_that_must_not_be_read_is_mended(sound: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = Path(shutil.copytree(sound, tmp_path / "the logs"))
    path = root / f"{SECOND}.log"
    let_mode_decide(monkeypatch, "open_read", path)
    path.chmod(0o200)
    mending = Mending(root, sound, tmp_path, FLAGS)
    found = next(each for each in mending.verify() if each["check"] == "unreadable")
    mending.carry_out(found)
    assert mending.mends == ["check the disk and the file's mode"]
    assert mending.verify() == []


def test_a_partition_that_must_not_be_listed_is_mended(
    sound: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = Path(shutil.copytree(sound, tmp_path / "the logs"))
    partition = root / PARTITION
    let_mode_decide(monkeypatch, "list_dir", partition)
    partition.chmod(0o300)
    mending = Mending(root, sound, tmp_path, FLAGS)
    found = next(each for each in mending.verify() if each["check"] == "unreadable")
    mending.carry_out(found)
    assert mending.mends == ["check the disk and the mode of the directory and its files"]
    assert mending.verify() == []
