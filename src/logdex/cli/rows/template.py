r"""The templates of `--format`, with the letters and escapes of kcat.

``%`` and a letter stand for a field; ``%%`` is a percent sign. A backslash and ``n``, ``r``, ``t``,
``0``, ``e`` or a backslash, or ``\xNN`` up to ``7f``, stand for a character. Nothing is printed
between rows, or behind the last one, that the template does not say.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection

from logdex.errors import UsageError

_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "0": "\0", "e": "\x1b", "\\": "\\"}
_PARTS = re.compile(r"%(?P<letter>.?)|\\x(?P<code>[0-7][0-9a-fA-F])|\\(?P<escape>.?)|(?P<plain>[^%\\]+)", re.DOTALL)


def parse_template(text: str, letters: Collection[str]) -> list[tuple[str, bool]]:
    """Returns the parts of a template: (letter, True) or (literal text, False). Raises `UsageError`
    for an unknown letter or escape."""
    parts: list[tuple[str, bool]] = []
    for found in _PARTS.finditer(text):
        letter, code, escape, plain = found.group("letter", "code", "escape", "plain")
        if letter == "%":
            parts.append(("%", False))
        elif letter is not None:
            if letter not in letters or not letter:
                raise UsageError(f"--format has no %{letter}", hint=f"the letters are {' '.join(sorted(letters))}")
            parts.append((letter, True))
        elif code is not None:
            parts.append((chr(int(code, 16)), False))
        elif escape is not None:
            if escape not in _ESCAPES:
                raise UsageError(rf"--format has no \{escape}", hint=r"there are \n \r \t \0 \e \\ and \x00 to \x7f")
            parts.append((_ESCAPES[escape], False))
        else:
            parts.append((plain.encode("utf-8", "backslashreplace").decode("utf-8"), False))
    return parts


def compile_template(text: str, letters: Collection[str]) -> Callable[[Callable[[str], str]], str]:
    """Returns a function that makes the text of a row, given what each letter stands for in it."""
    parts = parse_template(text, letters)

    def fill(text_of: Callable[[str], str]) -> str:
        return "".join(text_of(part) if is_letter else part for part, is_letter in parts)

    return fill
