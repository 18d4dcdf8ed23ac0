"""Real engines as master and slave, and a proxy between them that cuts connections."""

from __future__ import annotations

import contextlib
import os
import random
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.java import QUICK

GEOMETRY = ("--commitlog", "65536", "--cq", "100", "--slots", "500", "--max-index", "5000")
_EXPORTS = (
    "--add-exports=java.base/sun.nio.ch=ALL-UNNAMED",
    *(
        f"--add-opens=java.base/{name}=ALL-UNNAMED"
        for name in ("java.nio", "sun.nio.ch", "jdk.internal.ref", "java.lang")
    ),
)


def class_path(peers: Path, version: str, work: Path) -> str:
    """Builds the peers' classes for a version and HaStore beside them."""
    probe = [str(peers / "run"), "-v", version, "DumpStore"]
    subprocess.run(probe, capture_output=True, check=False, timeout=600)
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    builds = sorted((Path(cache) / "logdex-peers" / "rocketmq").glob(f"{version}-*"), key=os.path.getmtime)
    jars = (builds[-1] / "classpath.txt").read_text().strip()
    path = f"{work / 'classes' / version}:{builds[-1] / 'classes'}:{jars}"
    source = Path(__file__).parent / "HaStore.java"
    out = ["-d", str(work / "classes" / version)]
    subprocess.run(["javac", *out, "-cp", path, str(source)], check=True, capture_output=True, timeout=300)
    return path


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


class Engine:
    """A running HaStore. `ask` sends it a command and returns the answer."""

    def __init__(self, process: subprocess.Popen[bytes], port: int) -> None:
        self.process, self.port = process, port
        self.address = f"127.0.0.1:{port}"

    def ask(self, command: str) -> str:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{command}\n".encode())
        self.process.stdin.flush()
        for line in self.process.stdout:
            if line.startswith(b"> "):
                return line[2:].decode().strip()
        raise AssertionError("the engine ended")

    @property
    def end_offset(self) -> int:
        return int(self.ask("end"))


@contextmanager
def engine(path: str, store: Path, role: str, work: Path, *more: str) -> Iterator[Engine]:
    port = free_port()
    command = ["java", "-Xmx512m", *QUICK, *_EXPORTS, "-Dpeers.log.level=OFF", "-Duser.timezone=UTC"]
    command += [f"-Duser.home={work}", "-cp", path, "logdex.HaStore", "--dir", str(store), "--role", role]
    command += ["--listen", str(port), *GEOMETRY, *more]
    with (work / "engine.stderr").open("ab") as errors:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors)
    with process:
        try:
            found = Engine(process, port)
            assert found.end_offset >= 0
            yield found
            assert process.stdin is not None
            process.stdin.close()
            assert process.wait(120) == 0
        finally:
            process.kill()


class CuttingProxy:
    """Passes bytes between slaves and a master, and cuts each of the first `cuts` connections after
    a random number of the master's bytes."""

    def __init__(self, master_port: int, cuts: int, seed: int, at_most: int) -> None:
        self.cuts_left, self.connections = cuts, 0
        self._master_port, self._random, self._at_most = master_port, random.Random(seed), at_most
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                slave, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            limit = None
            if self.cuts_left > 0:
                self.cuts_left -= 1
                limit = self._random.randrange(self._at_most)
            threading.Thread(target=self._pass, args=(slave, limit), daemon=True).start()

    def _pass(self, slave: socket.socket, limit: int | None) -> None:
        with slave, socket.create_connection(("127.0.0.1", self._master_port)) as master:
            threading.Thread(target=self._copy, args=(slave, master, None), daemon=True).start()
            self._copy(master, slave, limit)

    @staticmethod
    def _copy(source: socket.socket, target: socket.socket, limit: int | None) -> None:
        with contextlib.suppress(OSError):
            while limit is None or limit > 0:
                data = source.recv(4096 if limit is None else min(limit, 4096))
                if not data:
                    break
                target.sendall(data)
                limit = None if limit is None else limit - len(data)
        for each in (source, target):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
