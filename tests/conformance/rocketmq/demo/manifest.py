"""manifest.py STORE DUMP: the demo store's short manifest, from its files and what the real
engine's DumpStore said."""

import hashlib
import json
import sys
from pathlib import Path


def main() -> None:
    store, dump = Path(sys.argv[1]), [json.loads(line) for line in Path(sys.argv[2]).read_text("utf-8").splitlines()]
    files = {}
    for path in sorted(p for p in store.rglob("*") if p.is_file()):
        with path.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
        files[str(path.relative_to(store))] = {"size": path.stat().st_size, "sha256": digest}
    of = {
        kind: [{k: v for k, v in d.items() if k != "type"} for d in dump if d["type"] == kind]
        for kind in ("store", "queue", "query")
    }
    messages = [line for line in dump if line["type"] == "message"]
    shown = ("topic", "queueId", "queueOffset", "physicalOffset", "size", "storeTimestamp", "msgId", "properties")
    manifest = {
        "name": "demo",
        "notes": "A small shop's orders, payments and shipments over a week. CommitLog files: 4 MiB; all else default.",
        "rocketmq": "5.5.0",
        "geometry": {
            "commitLogFileSize": 4 << 20,
            "consumeQueueEntries": 300_000,
            "hashSlots": 5_000_000,
            "maxIndexNum": 20_000_000,
        },
        "unclean": (store / "abort").exists(),
        "store": of["store"][0],
        "files": files,
        "messageCount": len(messages),
        "samples": [{name: messages[at][name] for name in shown} for at in range(0, len(messages), len(messages) // 8)],
        "queues": [queue for queue in of["queue"] if queue["max"]],
        "queries": of["query"],
    }
    print(json.dumps(manifest, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
