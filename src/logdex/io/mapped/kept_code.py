"""Machine code of one small function, compiled by llvmlite and kept on disk for later processes.

Loading llvmlite takes 50 MB and 60 ms, which is half of what a small command takes. So the first
process of a machine compiles the function, and the others load its few hundred bytes. The function
calls nothing by name and uses no data but what one address leads to, so its code needs no linker.

Only Linux on x86-64 has been tested. On other systems each process compiles.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import stat
import sys
from contextlib import suppress
from typing import Any, NamedTuple
from zlib import crc32  # hashlib takes 3 MB

from logdex.primitives import kept_files

DATA = 0x6C6F_6764_6578_2131
"""Stands in the source for the address of the function's data, which differs from process to
process."""
_CODE_BYTES_MAX = 1 << 16
_CHECK_BYTES = 4


class Code(NamedTuple):
    """A function in memory, which stays there as long as `owner` exists."""

    address: int
    owner: Any


def load(source: str, function: str, data_address: int) -> Code:
    """Returns the only function of `source` (LLVM's language), with `data_address` in place of
    `DATA`."""
    if not is_keeping():
        return _compile(source.replace(str(DATA), str(data_address)), function)
    path = os.path.join(kept_files.folder(), f"{function}-{crc32(source.encode()):08x}.x86-64")
    code = _read(path, source)
    if code is None:
        code = _compile_to_bytes(source)
        _keep(path, source, code)
    return _place(code.replace(_word(DATA), _word(data_address)))


def is_keeping() -> bool:
    """Whether code is kept for this system and processor."""
    return sys.platform == "linux" and platform.machine() == "x86_64"


def _word(number: int) -> bytes:
    return number.to_bytes(8, "little")


# -- compiling -----------------------------------------------------------------------------------
def _machine_and_module(source: str) -> tuple[Any, Any, Any]:
    from llvmlite import binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    module = binding.parse_assembly(source)
    module.verify()
    return binding, binding.Target.from_default_triple().create_target_machine(), module


def _compile(source: str, function: str) -> Code:
    binding, machine, module = _machine_and_module(source)
    engine = binding.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    return Code(engine.get_function_address(function), engine)


def _compile_to_bytes(source: str) -> bytes:
    binding, machine, module = _machine_and_module(source)
    compiled = binding.ObjectFileRef.from_data(machine.emit_object(module))
    sections = [(each.name(), each.is_text(), each.data()) for each in compiled.sections()]
    [code] = [data for _, is_text, data in sections if is_text and data]
    assert code.count(_word(DATA)) == 1, "the function has one place for its data's address"
    assert not any(name in (b".rela.text", b".rel.text") for name, _, _ in sections), "the function needs no linker"
    return bytes(code)


def _place(code: bytes) -> Code:
    """Copies code to memory of its own, which is then executable and no longer writable."""
    memory = mmap.mmap(-1, len(code), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory[:] = code
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(len(code)), mmap.PROT_READ | mmap.PROT_EXEC) != 0:
        raise OSError(ctypes.get_errno(), "mprotect")
    return Code(address, memory)


# -- keeping -------------------------------------------------------------------------------------
def _read(path: str, source: str) -> bytes | None:
    """Returns the code that is kept at `path`; None if there is none, if it is not whole or of
    another source, or if others could have written it."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        status = os.fstat(descriptor)
        is_ours = status.st_uid in (0, os.geteuid()) and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        if not (stat.S_ISREG(status.st_mode) and is_ours):
            return None
        data = os.read(descriptor, _CODE_BYTES_MAX)
    except OSError:
        return None
    finally:
        os.close(descriptor)
    code = data[_CHECK_BYTES:]
    return code if data[:_CHECK_BYTES] == _check(source, code) and code.count(_word(DATA)) == 1 else None


def _check(source: str, code: bytes) -> bytes:
    """What a kept file begins with: it tells code that is whole and of the same source."""
    return crc32(code, crc32(source.encode())).to_bytes(_CHECK_BYTES, "little")


def _keep(path: str, source: str, code: bytes) -> None:
    """Keeps code for later processes, if there is a place for it."""
    part = f"{path}.{os.getpid()}"
    with suppress(OSError):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(part, flags, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(_check(source, code) + code)
            os.replace(part, path)
        except OSError:
            os.unlink(part)
