"""Reads all messages of a log, including those after damage, and checks the log itself.

For the engine a log ends at the first bad message. `LogPass` reports that message and continues
after it if more messages follow.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from logdex.errors import CorruptError, CrcMismatchError, UnreadableError
from logdex.io.env import Env
