"""Replaces real paths in reports by the paths that the caller passed."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping

from logdex.io.env import Env
from logdex.kafka.directory.partition_files import partition_directory
from logdex.kafka.directory.recognise import KafkaPath, KafkaPathKind


class GivenNames:
    """Maps real paths in messages back to the paths that the caller passed. Tasks work with real
    paths, because their working directories may differ from the caller's."""

    def __init__(self, found: KafkaPath, output: str, env: Env) -> None:
        given = found.path if found.kind is KafkaPathKind.LOG_DIR else partition_directory(found)
        names = {env.real_path(output): output, env.real_path(given): given}
        home, above = posixpath.dirname(env.real_path(given)), posixpath.split(given)
        if above[1] == posixpath.basename(env.real_path(given)) and home != "/":
            names.setdefault(home, above[0] or ".")
        self._names = {real: name.rstrip("/") or "/" for real, name in names.items() if real != "/"}
        longest_first = sorted(self._names, key=len, reverse=True)
        self._pattern = re.compile(rf"(?<![\w/])({'|'.join(map(re.escape, longest_first))})(?=[/: ,;]|$)")

    def text(self, text: str) -> str:
        """Returns `text` with the caller's paths."""
        return self._pattern.sub(lambda match: self._names[match[1]], text)

    def texts(self, texts: list[str]) -> list[str]:
        """Returns `texts`, each with the caller's paths."""
        return [self.text(each) for each in texts]

    def kept(self, kept: Mapping[str, str]) -> dict[str, str]:
        """Returns `kept`, a map from each replaced file to the place where its old version is kept
        now, with the caller's paths."""
        return {name: self.text(where) for name, where in kept.items()}
