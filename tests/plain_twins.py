"""Chooses between kernels and their plain twins, where the code takes what is quicker."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from logdex.kafka.columns import record_decoder
from logdex.kafka.key_index import reader as key_index_reader
from logdex.kafka.scan import scan_window
from logdex.rocketmq.scan import scanner

_WHERE_IT_IS_ASKED = (scanner, scan_window, record_decoder, key_index_reader)


@contextmanager
def plain_twins(wanted: bool) -> Iterator[None]:
    """Uses plain twins, or kernels, for small work too."""
    with pytest.MonkeyPatch.context() as patched:
        for module in _WHERE_IT_IS_ASKED:
            patched.setattr(module, "is_plain_quicker", lambda: wanted)
        yield
