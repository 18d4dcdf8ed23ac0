"""thin.py MANIFEST...: makes manifests smaller, and drops the files from them that `make` drops
from the stores.

Of queries and times at most 150 each stay, evenly spread. RocksDB's OPTIONS files name folders of
the machine.
"""

import json
import sys
from pathlib import Path
from typing import Any

KEPT = 150
DROPPED = "rocksdbstore/OPTIONS-"


def spread(rows: list[Any]) -> list[Any]:
    """At most KEPT of `rows`, evenly spread, in their order."""
    return rows if len(rows) <= KEPT else [rows[at * len(rows) // KEPT] for at in range(KEPT)]


def text_of(value: Any) -> str:
    """JSON with one line to each item of a list."""
    if not (isinstance(value, list) and value):
        return json.dumps(value)
    return "[\n  " + ",\n  ".join(json.dumps(item, separators=(",", ":")) for item in value) + "\n ]"


def main() -> None:
    """Rewrites each manifest in place."""
    for path in map(Path, sys.argv[1:]):
        manifest = json.loads(path.read_text("utf-8"))
        for name in ("queries", "times"):
            manifest[name] = spread(manifest[name])
        for directory in (manifest, manifest.get("recovered", {})):
            if "files" in directory:
                kept = {name: about for name, about in directory["files"].items() if not name.startswith(DROPPED)}
                directory["files"] = kept
        body = ",\n".join(f" {json.dumps(name)}: {text_of(value)}" for name, value in manifest.items())
        path.write_text("{\n" + body + "\n}\n", "utf-8")


if __name__ == "__main__":
    main()
