"""Mapped files: bytes that cannot be read are noted, located and survived; other faults are not
ours."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from logdex.errors import UnreadableError
from logdex.io.env import Env
from logdex.io.mapped import bus_error, mapping
from logdex.io.mapped.mapping import (
    has_faults,
    map_pages,
    readable_end,
    require_no_faults,
    require_readable,
    take_unreadable,
)
from logdex.testing import BadSectorsEnv

PAGE = 4096
SIZE = 8 * PAGE


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(bytes(range(1, 256)) * SIZE)
    os.truncate(path, SIZE)
    return path


def test_what_was_cut_off_reads_as_zeros_and_is_noted(path: Path) -> None:
    mapped = Env().map_read(str(path))
    data = mapped.array
    os.truncate(path, 5000)
    assert not has_faults(data)
    assert readable_end(data, 0, SIZE) == 5000
    assert data[4999]
    assert not data[5000:].any()
    assert has_faults(data)
    with pytest.raises(UnreadableError) as caught, mapped:
        pass
    assert (caught.value.path, caught.value.position, caught.value.size_bytes) == (str(path), 5000, 5000)


def mapped_kib(path: Path) -> int:
    """Returns how much of a file this process has in its page tables."""
    lines = iter(Path("/proc/self/smaps").read_text().splitlines())
    assert any(line.endswith(str(path)) for line in lines)
    return next(int(line.split()[1]) for line in lines if line.startswith("Rss:"))


@pytest.mark.skipif(sys.platform != "linux", reason="Linux only: MADV_POPULATE_READ")
def test_pages_are_mapped_at_once(path: Path) -> None:
    os.truncate(path, 8 << 20)
    data = Env().map_read(str(path)).array
    assert mapped_kib(path) == 0
    map_pages(data, (2 << 20) + 5, (6 << 20) + 5)
    assert 4096 <= mapped_kib(path) < 8192
    map_pages(data, 0, 1 << 40)
    assert mapped_kib(path) == 8192
    map_pages(data, 9 << 20, 10 << 20)
    map_pages(np.zeros(9, np.uint8), 0, 9)


def test_pages_that_were_cut_off_are_no_fault_before_they_are_used(path: Path) -> None:
    data = Env().map_read(str(path)).array
    os.truncate(path, 5000)
    map_pages(data, 0, SIZE)
    assert not has_faults(data)
    assert data[4999]
    assert not data[2 * PAGE]
    assert has_faults(data)


def test_only_bytes_that_are_asked_for_matter(path: Path) -> None:
    data = Env().map_read(str(path)).array
    require_readable(data)
    os.truncate(path, 5000)
    assert not data[6000:].any()
    require_readable(data, 0, 5000)
    for view in (data, data[7000:], data.view(np.int64)):
        with pytest.raises(UnreadableError):
            require_no_faults(view)
        with pytest.raises(UnreadableError, match="byte 5000: the file was truncated to 5000 bytes"):
            require_readable(view)


def test_the_end_of_a_page_is_no_fault_and_is_noticed(path: Path) -> None:
    data = Env().map_read(str(path)).array
    os.truncate(path, SIZE - 10)
    assert not data[-10:].any()
    assert not has_faults(data)
    with pytest.raises(UnreadableError):
        require_readable(data)


def test_a_removed_file_is_still_there(path: Path) -> None:
    data = Env().map_read(str(path)).array
    path.unlink()
    require_readable(data)
    path.write_bytes(b"another")
    require_readable(data)
    assert data[0] == 1


def test_faults_can_be_taken(path: Path) -> None:
    data = Env().map_read(str(path)).array
    assert take_unreadable(data) is None
    os.truncate(path, PAGE)
    assert not data[3 * PAGE]
    assert not data[6 * PAGE]
    assert take_unreadable(data) == (3 * PAGE, 7 * PAGE)
    assert take_unreadable(data) is None
    require_no_faults(data)


def test_each_page_is_known_by_itself(path: Path) -> None:
    env = BadSectorsEnv({str(path): [(2 * PAGE, 2 * PAGE + 1), (3 * PAGE, 3 * PAGE + 1), (6 * PAGE, 6 * PAGE + 1)]})
    data = env.map_read(str(path)).array
    other = env.map_read(str(path)).array
    assert not data[2 * PAGE]
    assert not other[3 * PAGE]
    assert not data[6 * PAGE]
    assert not data[3 * PAGE]
    for _ in range(2):
        assert [readable_end(data, at * PAGE, SIZE) for at in (0, 3, 4, 7)] == [2 * PAGE, 3 * PAGE, 6 * PAGE, SIZE]
        require_readable(data, 4 * PAGE, 6 * PAGE)
        with pytest.raises(UnreadableError, match=f"bytes {2 * PAGE} to {4 * PAGE} cannot be read"):
            require_readable(data, 0, SIZE)
        take_unreadable(data)  # who reports them goes on, and they stay known
    require_no_faults(data)
    assert take_unreadable(other) == (3 * PAGE, 4 * PAGE)


def test_if_a_page_is_not_noted_all_between_the_first_and_the_last_one_is_bad(path: Path) -> None:
    data = Env().map_read(str(path)).array
    words = mapping._guard.words
    assert words is not None
    slot = bus_error.PAGES_AT + words[bus_error.FAULTS] % bus_error.PAGES_MAX
    os.truncate(path, PAGE)
    assert not data[2 * PAGE]
    assert not data[6 * PAGE]
    os.truncate(path, SIZE)
    assert readable_end(data, 4 * PAGE, SIZE) == 6 * PAGE
    words[slot] = 0  # as if a later fault had taken the place of the first one
    assert readable_end(data, 4 * PAGE, SIZE) == 4 * PAGE
    assert take_unreadable(data) == (2 * PAGE, 7 * PAGE)
    assert readable_end(data, 4 * PAGE, SIZE) == 4 * PAGE


@pytest.mark.parametrize("reads", range(8))
def test_a_fault_while_faults_are_taken_is_not_forgotten(path: Path, reads: int) -> None:
    """It happens in another thread, after the table was read a number of times."""

    class Words:
        def __init__(self, words: memoryview) -> None:
            self.words, self.reads = words, 0

        def __getitem__(self, at: int) -> int:
            self.reads += 1
            if self.reads == reads:
                assert not data[6 * PAGE]
            return int(self.words[at])

        def __setitem__(self, at: int, value: int) -> None:
            self.words[at] = value

    data = Env().map_read(str(path)).array
    os.truncate(path, PAGE)
    assert not data[2 * PAGE]
    owner = mapping._mapping_of(data)
    assert owner is not None
    owner._words = Words(owner._words)  # type: ignore[assignment]
    take_unreadable(data)
    assert not data[6 * PAGE]
    os.truncate(path, SIZE)
    assert readable_end(data, 2 * PAGE, SIZE) == 2 * PAGE
    assert readable_end(data, 6 * PAGE, SIZE) == 6 * PAGE


def test_rows_are_used_again(path: Path) -> None:
    for _ in range(50):
        data = Env().map_read(str(path)).array
        require_readable(data)
        os.truncate(path, PAGE)
        assert not data[2 * PAGE]
        assert has_faults(data)
        os.truncate(path, SIZE)
    assert mapping._guard._rows < 1000


def test_threads_meet_the_same_page(path: Path) -> None:
    data = Env().map_read(str(path)).array
    os.truncate(path, 0)
    sums: list[int] = []
    threads = [threading.Thread(target=lambda: sums.append(int(data.sum()))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sums == [0] * 8
    assert take_unreadable(data) == (0, SIZE)


def test_bytes_in_memory_are_passed_over() -> None:
    data = np.zeros(10, np.uint8)
    require_readable(data, 0, 1000)
    require_no_faults(data)
    assert (readable_end(data, 0, 7), has_faults(data), take_unreadable(data)) == (7, False, None)


def test_a_system_without_a_handler_reads_the_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("logdex.io.mapped.bus_error.sys.platform", "beos")
    with Env().map_read(str(path)) as mapped:
        os.truncate(path, 0)
        assert mapped.array.size == SIZE
        assert mapped.array.all()
        assert not mapped.array.flags.writeable


# -- faults of others, each in a process of its own ----------------------------------------------
FOREIGN = """
import faulthandler, mmap, os, signal, sys
import numpy as np
from logdex.io.env import Env
path, how = sys.argv[1:]
if how == "before": faulthandler.enable()
if how == "ignored": signal.signal(signal.SIGBUS, signal.SIG_IGN)
if how == "python": signal.signal(signal.SIGBUS, lambda *_: (print("handled"), sys.exit(3)))
ours = Env().map_read(path)
if how == "behind":
    faulthandler.enable()
    Env().map_read(path)
with open(path, "rb") as file:
    foreign = np.frombuffer(mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ), np.uint8)
os.truncate(path, 0)
assert not ours.array.any()
print("survived", flush=True)
if how in ("ignored", "python", "sent"):
    os.kill(os.getpid(), signal.SIGBUS)
    for _ in range(1000): pass
    print("still here", flush=True)
else:
    foreign.sum()
"""


@pytest.mark.parametrize(
    ("how", "code", "told"),
    [
        ("plain", -7, ""),
        ("before", -7, "Fatal Python error: Bus error"),
        ("behind", -7, "Fatal Python error: Bus error"),
        ("sent", -7, ""),
        ("ignored", 0, ""),
        ("python", 3, ""),
    ],
)
def test_faults_of_others_go_to_the_former_handler(path: Path, how: str, code: int, told: str) -> None:
    command = [sys.executable, "-c", FOREIGN, str(path), how]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.stdout.startswith("survived"), done.stderr
    assert done.returncode == code, done.stderr
    assert told in done.stderr
    assert done.stderr.count("Fatal") <= 1
    assert ("still here" in done.stdout) == (how == "ignored")


CHILDREN = """
import multiprocessing, os, sys
from logdex.errors import UnreadableError
from logdex.io.env import Env
def survive(path):
    with open(path, "wb") as file: file.write(bytes(range(256)) * 64)
    try:
        with Env().map_read(path) as mapped:
            os.truncate(path, 10)
            return int(mapped.array.sum())
    except UnreadableError as error:
        return error.position
if __name__ == "__main__":
    path = sys.argv[1]
    found = [survive(path)]
    for method in ("fork", "spawn", "forkserver"):
        with multiprocessing.get_context(method).Pool(1) as pool: found.append(pool.apply(survive, [path]))
    print(found)
"""


def test_children_are_guarded(path: Path, tmp_path: Path) -> None:
    script = tmp_path / "children.py"
    script.write_text(CHILDREN)
    command = [sys.executable, str(script), str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.stdout == "[10, 10, 10, 10]\n", done.stderr
