"""The gate between readers and whoever changes what they read."""

from __future__ import annotations

import threading
import time

import pytest

from logdex.io.reader_gate import ReaderGate

WAIT_S = 20


def test_readers_read_at_once() -> None:
    gate, both = ReaderGate(), threading.Barrier(2, timeout=WAIT_S)

    def read() -> None:
        with gate.reading():
            both.wait()

    thread = threading.Thread(target=read)
    thread.start()
    with gate.reading():
        both.wait()
    thread.join(WAIT_S)


def test_nobody_reads_while_files_change() -> None:
    gate, reading, wrong, stop = ReaderGate(), 0, list[str](), threading.Event()
    files = [1]

    def read() -> None:
        while not stop.is_set():
            with gate.reading():
                if not files:
                    wrong.append("read")

    def change() -> None:
        for _ in range(100):
            with gate.excluding():
                files.clear()
                time.sleep(0.0001)
                files.append(1)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    change()
    stop.set()
    for thread in threads:
        thread.join(WAIT_S)
    assert (wrong, reading) == ([], 0)


def test_who_excludes_waits_for_readers_and_goes_before_new_ones() -> None:
    gate, order = ReaderGate(), list[str]()
    asked, may_end = threading.Event(), threading.Event()

    def change() -> None:
        asked.set()
        with gate.excluding():
            order.append("changed")
            assert may_end.wait(WAIT_S)

    def read() -> None:
        with gate.reading():
            order.append("read")

    with gate.reading():
        changing = threading.Thread(target=change)
        changing.start()
        assert asked.wait(WAIT_S)
        time.sleep(0.02)
        later = threading.Thread(target=read)
        later.start()
        time.sleep(0.02)
        order.append("first reader ends")
    time.sleep(0.02)
    may_end.set()
    changing.join(WAIT_S)
    later.join(WAIT_S)
    assert order == ["first reader ends", "changed", "read"]


def test_excluding_nests_and_ends_with_an_error() -> None:
    gate = ReaderGate()
    with pytest.raises(ZeroDivisionError), gate.excluding(), gate.excluding():
        assert 1 / 0
    with pytest.raises(ZeroDivisionError), gate.reading():
        assert 1 / 0
    with gate.reading():
        pass
    with gate.excluding():
        pass


def test_an_interrupt_while_readers_are_waited_for_leaves_the_gate_open(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = ReaderGate()

    def interrupted(timeout: float | None = None) -> bool:
        raise KeyboardInterrupt

    monkeypatch.setattr(gate._changed, "wait", interrupted)
    with gate.reading(), pytest.raises(KeyboardInterrupt), gate.excluding():
        pass
    monkeypatch.undo()
    again = threading.Thread(target=lambda: gate.reading().__enter__(), daemon=True)
    again.start()
    again.join(WAIT_S / 10)
    assert not again.is_alive()
