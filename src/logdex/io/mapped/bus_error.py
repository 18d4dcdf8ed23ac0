"""The SIGBUS handler: the process survives an access to mapped bytes that cannot be read.

The system sends SIGBUS where a file was truncated after it was mapped, or where the disk cannot
read a sector. The handler runs in the thread that made the access. If the address lies in a range
of the table, the handler puts a page of zeros over the page, notes it in the row of the range and
in the list of pages, and the thread goes on. Any other SIGBUS goes to the handler that was
installed before.

The handler must not use Python, so it is written in LLVM's language and compiled by llvmlite, which
Numba brings. Loading that takes 50 MB, so the code is kept on disk where its processor is known
(`kept_code`). It calls `mmap`, `sigaction` and `raise` only. (docs/design/0015)
"""

from __future__ import annotations

import ctypes
import mmap
import platform
import signal
import sys
from typing import Any, NamedTuple

from logdex.io.mapped import kept_code

ROWS_MAX = 1 << 16
"""As many mappings as a process may have by default on Linux (vm.max_map_count)."""
HEADER_WORDS = 16
ROW_WORDS = 8
ROWS, FAULTS, HANDED_ON, FORMER_FUNCTION, FORMER_IGNORES = range(5)
"""Words of the table's header: the rows in use, all faults so far, how often a signal was handed
on, the address of the former handler if it takes three arguments, and whether SIGBUS was ignored.
"""
_FORMER, _DEFAULT, _MMAP, _SIGACTION, _RAISE = range(5, 10)
"""More words: the addresses of the former action and of the default one, and of the system's
functions."""
START, END, ROW_FAULTS, FIRST, BEHIND = range(5)
"""Words of a row: the addresses [start, end) of the range, which is empty if the row is free; the
number of faults, the lowest page with one, and the end of the highest."""
PAGES_MAX = 1 << 16
PAGES_AT = HEADER_WORDS + ROWS_MAX * ROW_WORDS
"""Behind the rows: the addresses of the pages of the last faults. Fault n is at word `PAGES_AT` + n
modulo `PAGES_MAX`."""

_PAGE = mmap.PAGESIZE


class _System(NamedTuple):
    """Numbers of a system's C library that differ. Sources: the headers bits/sigaction.h and
    asm-generic/siginfo.h of Linux, sys/signal.h of macOS."""

    address_at: int
    """Where `si_addr` lies in a siginfo_t. `si_code` is at byte 8 everywhere."""
    action_size: int
    flags_at: int
    """Where `sa_flags` lies in a struct sigaction. The handler is at byte 0."""
    siginfo: int
    nodefer: int
    onstack: int


_SYSTEMS = {"linux": _System(16, 152, 136, 4, 0x40000000, 0x08000000), "darwin": _System(24, 16, 12, 0x40, 0x10, 0x1)}
_MACHINES = ("x86_64", "AMD64", "aarch64", "arm64")
_MAP_FIXED = 0x10


def is_supported() -> bool:
    """Whether the numbers of this system are known."""
    return sys.platform in _SYSTEMS and platform.machine() in _MACHINES


_CODE = """
define void @on_bus_error(i32 %signal, ptr %info, ptr %context) {{
entry:
  %place = inttoptr i64 {table_at} to ptr
  %table = load volatile ptr, ptr %place
  %code_at = getelementptr i8, ptr %info, i64 8
  %code = load i32, ptr %code_at
  %address_at = getelementptr i8, ptr %info, i64 {address_at}
  %address = load i64, ptr %address_at
  %is_sent = icmp sle i32 %code, 0
  %count = load atomic i64, ptr %table acquire, align 8
  br i1 %is_sent, label %foreign, label %next

next:
  %i = phi i64 [ 0, %entry ], [ %i_next, %behind ]
  %i_next = add i64 %i, 1
  %is_over = icmp uge i64 %i, %count
  br i1 %is_over, label %foreign, label %look

look:
  %word = mul i64 %i, {row_words}
  %row_word = add i64 %word, {header_words}
  %row = getelementptr i64, ptr %table, i64 %row_word
  %end_at = getelementptr i64, ptr %row, i64 1
  %start = load atomic i64, ptr %row acquire, align 8
  %end = load atomic i64, ptr %end_at acquire, align 8
  %is_from = icmp uge i64 %address, %start
  %is_to = icmp ult i64 %address, %end
  %is_in = and i1 %is_from, %is_to
  br i1 %is_in, label %ours, label %behind

behind:
  br label %next

ours:
  %page = and i64 %address, -{page_size}
  %page_end = add i64 %page, {page_size}
  %first_at = getelementptr i64, ptr %row, i64 3
  %behind_at = getelementptr i64, ptr %row, i64 4
  %faults_at = getelementptr i64, ptr %row, i64 2
  %all_at = getelementptr i64, ptr %table, i64 1
  %old_first = atomicrmw umin ptr %first_at, i64 %page seq_cst
  %old_behind = atomicrmw umax ptr %behind_at, i64 %page_end seq_cst
  %old_faults = atomicrmw add ptr %faults_at, i64 1 seq_cst
  %old_all = atomicrmw add ptr %all_at, i64 1 seq_cst
  %slot = and i64 %old_all, {last_slot}
  %slot_word = add i64 %slot, {pages_at}
  %slot_at = getelementptr i64, ptr %table, i64 %slot_word
  store atomic i64 %page, ptr %slot_at release, align 8
  %mmap_at = getelementptr i64, ptr %table, i64 {mmap}
  %mmap = load ptr, ptr %mmap_at
  %page_at = inttoptr i64 %page to ptr
  %zeros = call ptr %mmap(ptr %page_at, i64 {page_size}, i32 {protection}, i32 {map_flags}, i32 -1, i64 0)
  %is_there = icmp eq ptr %zeros, %page_at
  br i1 %is_there, label %done, label %rest

rest:
  %rest_size = sub i64 %end, %page
  %all_zeros = call ptr %mmap(ptr %page_at, i64 %rest_size, i32 {protection}, i32 {map_flags}, i32 -1, i64 0)
  %is_rest_there = icmp eq ptr %all_zeros, %page_at
  %old_end = atomicrmw umax ptr %behind_at, i64 %end seq_cst
  br i1 %is_rest_there, label %done, label %foreign

foreign:
  %function_at = getelementptr i64, ptr %table, i64 3
  %function = load ptr, ptr %function_at
  %is_none = icmp eq ptr %function, null
  br i1 %is_none, label %simple, label %call_it

call_it:
  call void %function(i32 %signal, ptr %info, ptr %context)
  br label %done

simple:
  %ignores_at = getelementptr i64, ptr %table, i64 4
  %ignores = load i64, ptr %ignores_at
  %is_ignored = icmp ne i64 %ignores, 0
  %is_quiet = and i1 %is_ignored, %is_sent
  br i1 %is_quiet, label %done, label %restore

restore:
  %handed_at = getelementptr i64, ptr %table, i64 2
  %handed = atomicrmw add ptr %handed_at, i64 1 seq_cst
  %is_first = icmp eq i64 %handed, 0
  %former_at = getelementptr i64, ptr %table, i64 {former}
  %former = load ptr, ptr %former_at
  %default_at = getelementptr i64, ptr %table, i64 {default}
  %default = load ptr, ptr %default_at
  %action = select i1 %is_first, ptr %former, ptr %default
  %sigaction_at = getelementptr i64, ptr %table, i64 {sigaction}
  %sigaction = load ptr, ptr %sigaction_at
  %restored = call i32 %sigaction(i32 %signal, ptr %action, ptr null)
  br i1 %is_sent, label %again, label %done

again:
  %raise_at = getelementptr i64, ptr %table, i64 {raise_}
  %raise = load ptr, ptr %raise_at
  %raised = call i32 %raise(i32 %signal)
  br label %done

done:
  ret void
}}
"""


class BusErrorHandler:
    """The handler and its table. One per process; a forked child inherits it."""

    def __init__(self) -> None:
        system = _SYSTEMS[sys.platform]
        self._system = system
        size_bytes = 8 * (PAGES_AT + PAGES_MAX)
        self._memory = mmap.mmap(-1, size_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self.words = memoryview(self._memory).cast("q")
        """The table. Untouched pages of it take no memory."""
        self._former = ctypes.create_string_buffer(system.action_size)
        self._default = ctypes.create_string_buffer(system.action_size)
        self._action = ctypes.create_string_buffer(system.action_size)
        self._now = ctypes.create_string_buffer(system.action_size)
        libc = ctypes.CDLL(None, use_errno=True)
        self._sigaction = libc.sigaction
        self._sigaction.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
        self.words[_FORMER] = ctypes.addressof(self._former)
        self.words[_DEFAULT] = ctypes.addressof(self._default)
        for word, function in (_MMAP, libc.mmap), (_SIGACTION, libc.sigaction), (_RAISE, getattr(libc, "raise")):
            self.words[word] = ctypes.cast(function, ctypes.c_void_p).value or 0
        self._table_at = ctypes.c_uint64(ctypes.addressof(ctypes.c_char.from_buffer(self._memory)))
        self._code = kept_code.load(_source(system), "on_bus_error", ctypes.addressof(self._table_at))
        flags = system.siginfo | system.nodefer | system.onstack
        _put(self._action, 0, ctypes.c_uint64, self._code.address)
        _put(self._action, system.flags_at, ctypes.c_int32, flags)

    def install(self) -> None:
        """Installs the handler unless it is the installed one. Another that was installed since
        (`faulthandler.enable`) becomes the former one, which gets what is not ours."""
        if self._sigaction(signal.SIGBUS, None, self._now) != 0:
            raise OSError(ctypes.get_errno(), "sigaction")
        handler = _get(self._now, 0, ctypes.c_uint64)
        if handler == self._code.address:
            return
        ctypes.memmove(self._former, self._now, self._system.action_size)
        takes_three = _get(self._now, self._system.flags_at, ctypes.c_int32) & self._system.siginfo
        is_function = handler not in (int(signal.SIG_DFL), int(signal.SIG_IGN))
        self.words[FORMER_FUNCTION] = handler if is_function and takes_three else 0
        self.words[FORMER_IGNORES] = int(handler == int(signal.SIG_IGN))
        self.words[HANDED_ON] = 0
        if self._sigaction(signal.SIGBUS, self._action, None) != 0:
            raise OSError(ctypes.get_errno(), "sigaction")


def _source(system: _System) -> str:
    """The handler's code in LLVM's language. `kept_code.DATA` stands for the address at which the
    table's address is."""
    return _CODE.format(
        table_at=kept_code.DATA,
        address_at=system.address_at,
        row_words=ROW_WORDS,
        header_words=HEADER_WORDS,
        page_size=_PAGE,
        pages_at=PAGES_AT,
        last_slot=PAGES_MAX - 1,
        protection=mmap.PROT_READ,
        map_flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_FIXED,
        former=_FORMER,
        default=_DEFAULT,
        mmap=_MMAP,
        sigaction=_SIGACTION,
        raise_=_RAISE,
    )


def _put(action: Any, at: int, kind: Any, value: int) -> None:
    kind.from_buffer(action, at).value = value


def _get(action: Any, at: int, kind: Any) -> int:
    return int(kind.from_buffer(action, at).value)
