"""Java programs of the tests, compiled beside the peers' own classes and run on their jars."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.java import QUICK

_HERE = Path(__file__).parent
_OPENED = ("java.nio", "sun.nio.ch", "jdk.internal.ref", "java.lang")


class Program:
    """One program, ``NAME.java`` in this folder, on the jars of one version."""

    def __init__(self, peers: Path, version: str, name: str, work: Path) -> None:
        # the peers build their classes at the first start of any of their programs
        subprocess.run([str(peers / "run"), "-v", version, "DumpStore"], capture_output=True, check=False, timeout=600)
        cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
        builds = sorted((Path(cache) / "logdex-peers" / "rocketmq").glob(f"{version}-*"), key=os.path.getmtime)
        jars = (builds[-1] / "classpath.txt").read_text().strip()
        self._work, self._name, classes = work, name, work / f"classes-{version}"
        self._class_path = f"{classes}:{builds[-1] / 'classes'}:{jars}"
        command = ["javac", "-d", str(classes), "-cp", self._class_path, str(_HERE / f"{name}.java")]
        subprocess.run(command, check=True, capture_output=True, timeout=300)

    def command(self, *arguments: object, options: tuple[str, ...] = ()) -> list[str]:
        """The command that runs it with arguments; `options` are those of the JVM."""
        java = ["java", *QUICK, "--add-exports=java.base/sun.nio.ch=ALL-UNNAMED"]
        java += [f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in _OPENED]
        java += ["-Dpeers.log.level=OFF", "-Drocketmq.client.logUseSlf4j=true", "-Duser.timezone=UTC", "-Xmx1g"]
        return [
            *(*java, f"-Duser.home={self._work}", *options),
            *("-cp", self._class_path, f"logdex.{self._name}", *map(str, arguments)),
        ]

    def run(self, *arguments: object, options: tuple[str, ...] = ()) -> list[str]:
        """The lines that it prints."""
        done = subprocess.run(
            self.command(*arguments, options=options), capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout.splitlines()
