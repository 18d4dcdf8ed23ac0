"""Real Kafka programs for tests: a broker over a directory, a consumer, and Kafka's own classes
reading any files.

All of them need ../shared/peers/kafka, a JDK and Maven; a test module that uses this is marked
`needs_java` and has `needs_peers` among its marks.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import threading
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from logdex.kafka.settings.log_config import LogConfig
from tests.golden.archives import SHARED
from tests.java import QUICK

PEERS = SHARED / "peers" / "kafka"
VERSIONS = ("4.4.0", "3.9.2")
INLINE_BYTES = "10000000"
TIMEOUT_S = 240
ENVIRONMENT = {**os.environ, "JAVA_OPTS": " ".join(["-Xmx1g", *QUICK])}

Line = dict[str, Any]
Lines = dict[str, list[Line]]

needs_peers = pytest.mark.skipif(not PEERS.is_dir(), reason="needs ../shared/peers/kafka")


def read_log(directory: Path, version: str, *options: str) -> Lines:
    """What ReadLog says of a log directory, by kind of line; the directory itself is not
    touched."""
    command = [str(PEERS / "run"), "-v", version, "ReadLog", "--dir", str(directory)]
    command += ["--inline", INLINE_BYTES, *options]
    return _by_kind(_run(command))


def run_broker(home: Path, version: str, spec: Line | None = None) -> None:
    """A broker over `home` does what `spec` says and ends."""
    _run(_broker_command(home, version, spec))


def refused(home: Path, version: str, reason: str) -> bool:
    """Whether a broker over `home` does not start, saying `reason`. It may then hang: it is
    ended."""
    command = _broker_command(home, version, None)
    broker = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=ENVIRONMENT)
    timer = threading.Timer(TIMEOUT_S, broker.kill)
    timer.start()
    with broker:
        assert broker.stderr is not None
        found = any(reason in line.decode() for line in broker.stderr)
        timer.cancel()
        broker.kill()
    return found


def format_directory(home: Path, version: str, cluster_id: str, node_id: int) -> None:
    """Runs `kafka-storage format` for a broker over `home`, as an operator does."""
    settings = {
        "process.roles": "broker,controller",
        "node.id": node_id,
        "controller.quorum.voters": f"{node_id}@127.0.0.1:9093",
        "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": home,
    }
    path = home.with_name(home.name + ".properties")
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    _run([*_java(version), "kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", str(path)])


@contextmanager
def serving(home: Path, version: str, spec: Line | None = None, *, by_hand: bool = False) -> Iterator[RunningBroker]:
    """A broker over `home`, which has done the steps of `spec`; ended as `spec` says (cleanly or by
    a halt) at the end of the block. With `by_hand` the block begins while the steps are being
    done."""
    errors = home.with_name(home.name + ".stderr")
    with errors.open("wb") as sink:
        broker = subprocess.Popen(
            [*_broker_command(home, version, spec), "--serve"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=sink,
            env=ENVIRONMENT,
        )
        running = RunningBroker(broker, version, errors)
        try:
            if not by_hand:
                running.wait_until_done()
            yield running
            running.end()
        finally:
            if broker.poll() is None:
                broker.kill()
            broker.wait()
            for pipe in (broker.stdin, broker.stdout):
                if pipe is not None:
                    pipe.close()


def _numbers(given: Sequence[int]) -> str:
    return ",".join(map(str, given)) or "-"


class RunningBroker:
    """A broker in a process of its own."""

    def __init__(self, process: subprocess.Popen[bytes], version: str, errors: Path) -> None:
        self._process = process
        self._version = version
        self._errors = errors
        self.address = ""

    def wait_until_done(self) -> None:
        """Until all steps are done and it serves clients."""
        assert self._process.stdout is not None
        for text in self._process.stdout:
            if text.startswith(b'{"kafka"'):
                self.address = json.loads(text)["address"]
                return
        raise AssertionError(self._errors.read_text()[-4000:])

    def consume(self, partition: str, times: list[int] = [], offsets: list[int] = []) -> Lines:  # noqa: B006
        """What a real consumer reads of `partition`, all of it, uncommitted and committed; which
        records it gets when it seeks `offsets`, which offsets it is told of `times`."""
        topic, _, number = partition.rpartition("-")
        return self._client("ConsumeAll", topic, number, *map(_numbers, (times, offsets)))

    def consume_topic(self, topic: str, partitions: int) -> dict[str, Lines]:
        """What a real consumer reads of the partitions of `topic`, by partition."""
        lines = self._client("ConsumeAll", topic, _numbers(range(partitions)), "-", "-")
        found: dict[str, Lines] = {f"{topic}-{number}": defaultdict(list) for number in range(partitions)}
        for kind, told in lines.items():
            for line in told:
                found[line["partition"]][kind].append(line)
        return found

    def committed(self, group: str) -> dict[str, dict[str, int]]:
        """By partition, the offsets that the broker says a group has committed, and those of the
        records that a consumer of the group gets `next`."""
        lines = self._client("CommittedOffsets", group)
        kinds = ("committed", "next")
        return {kind: {line["partition"]: line["offset"] for line in lines[kind]} for kind in kinds}

    def _client(self, name: str, *arguments: str) -> Lines:
        """What a Java program beside this file says."""
        source = Path(__file__).parent / f"{name}.java"
        quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
        return _by_kind(_run([*_java(self._version), "-Xmx512m", quiet, str(source), self.address, *arguments]))

    def end(self) -> None:
        """As its spec says."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        assert self._process.wait(TIMEOUT_S) == 0, self._errors.read_text()[-4000:]


def _broker_command(home: Path, version: str, spec: Line | None) -> list[str]:
    command = [str(PEERS / "run"), "-v", version, "RunBroker", "--dir", str(home)]
    if spec is not None:
        path = home.with_name(home.name + ".spec.json")
        path.write_text(json.dumps(spec))
        command += ["--spec", str(path)]
    return command


def _java(version: str) -> list[str]:
    """How a program with Kafka's classes begins."""
    return ["java", *QUICK, "-cp", str(_cache(version) / "lib" / "*")]


def _cache(version: str) -> Path:
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(cache) / "logdex-peers" / f"kafka-{version}"


def _run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, timeout=TIMEOUT_S, check=False, env=ENVIRONMENT)
    assert done.returncode == 0, done.stderr.decode()[-4000:]
    return done.stdout.decode()


def _by_kind(text: str) -> Lines:
    lines: Lines = defaultdict(list)
    for each in text.splitlines():
        line = json.loads(each)
        lines[line["kind"]].append(line)
    return lines


# -- directories ---------------------------------------------------------------------------------
def digests(directory: Path) -> dict[str, tuple[int, str]]:
    """Size and SHA-256 of each file in `directory`, by name."""
    found = {}
    for path in sorted(directory.iterdir()):
        if path.is_file():
            data = path.read_bytes()
            found[path.name] = (len(data), hashlib.sha256(data).hexdigest())
    return found


def told_digests(lines: Lines) -> dict[str, tuple[int, str]]:
    """The same of the `file` lines of a ReadLog."""
    return {line["name"]: (line["size"], line["sha256"]) for line in lines["file"]}


def topic_config(version: str, config: LogConfig) -> dict[str, str]:
    """The topic settings under which a broker reads and writes as `config` says."""
    size = "internal.segment.bytes" if version.startswith("4") else "segment.bytes"
    return {
        size: str(config.segment_bytes),
        "index.interval.bytes": str(config.index_interval_bytes),
        "message.timestamp.type": config.message_timestamp_type,
        "retention.ms": str(config.retention_ms),
    }


def config_option(version: str, config: LogConfig) -> list[str]:
    """The same as an option of ReadLog."""
    return ["--config", ",".join(f"{name}={value}" for name, value in topic_config(version, config).items())]
