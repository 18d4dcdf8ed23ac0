"""The Java programs beside these tests, which run on the peers' own classes and the released
jars."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

VERSIONS = ("5.5.0", "4.9.7")
"""The released engines that these tests run."""
_OPENED = ("java.nio", "sun.nio.ch", "jdk.internal.ref", "java.lang")


def compiled(name: str, version: str, peers: Path, classes: Path) -> str:
    """Compiles NAME.java for an engine's version into a folder below `classes`. Returns the class
    path."""
    subprocess.run([str(peers / "run"), "-v", version, "DumpStore"], capture_output=True, check=False, timeout=600)
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    builds = sorted((Path(cache) / "logdex-peers" / "rocketmq").glob(f"{version}-*"), key=os.path.getmtime)
    jars = (builds[-1] / "classpath.txt").read_text().strip()
    path = f"{classes / version}:{builds[-1] / 'classes'}:{jars}"
    source = Path(__file__).parent / f"{name}.java"
    command = ["javac", "-d", str(classes / version), "-cp", path, str(source)]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    return path


def java_command(class_path: str, home: Path) -> list[str]:
    """The command that runs a program of `class_path`, without its name."""
    opened = [f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in _OPENED]
    options = ["--add-exports=java.base/sun.nio.ch=ALL-UNNAMED", *opened, "-Dpeers.log.level=OFF"]
    return ["java", "-Xmx1g", *options, "-Duser.timezone=UTC", f"-Duser.home={home}", "-cp", class_path]
