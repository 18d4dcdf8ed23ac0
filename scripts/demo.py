"""The main job on a store that a real broker wrote, step by step: look, rebuild with Spark, compare, query.

Run by scripts/demo. Exit 0: all as it should be; 1: something differs or a command failed; 2: cannot run here.
"""

from __future__ import annotations

import argparse
import filecmp
import json
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
import textwrap
import time
from pathlib import Path
from typing import Any

import pyarrow as pa

PACKED = Path(__file__).resolve().parent.parent / "tests" / "conformance" / "stores" / "demo.tar.zst"
MANIFEST = PACKED.with_name("demo.files.json")
"""What the real broker's engine says of the store: sample messages, and its answers to some queries."""

STORE, RESCUED = "store", "rescued"
SAMPLE = 2
QUESTION = 0
"""Which of the manifest's sample messages and queries are shown."""


class DemoFailed(Exception):
    """Something is not as it should be."""


def say(text: str = "") -> None:
    """One paragraph for the reader."""
    print(textwrap.fill(text, 100), flush=True)


def step(number: int, title: str, text: str) -> None:
    """The head of one step."""
    print(f"\n== {number}. {title}", flush=True)
    say(text)


def logdex(folder: Path, *arguments: str) -> str:
    """Runs `logdex ARGUMENTS` in `folder`, just as it is shown; gives what it printed. `DemoFailed` on a bad exit."""
    print(f"\n$ {shlex.join(['logdex', *arguments])}", flush=True)
    printed = run_quietly(folder, *arguments)
    print(printed, end="", flush=True)
    return printed


def run_quietly(folder: Path, *arguments: str) -> str:
    """`logdex` without showing it; what it says on stderr is seen."""
    command = [sys.executable, "-m", "logdex", *arguments]
    done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, encoding="utf-8", errors="replace", check=False)
    if done.returncode != 0:
        raise DemoFailed(f"logdex {arguments[0]} ended with exit code {done.returncode}")
    return done.stdout


def compile_kernels(folder: Path) -> None:
    """Has a rebuild compile all that it needs, so that no later step seems to hang. Compiled code is kept."""
    print("Compiling the scan for this machine (some ten seconds the first time) ... ", end="", flush=True)
    started = time.monotonic()
    run_quietly(folder, "rebuild", STORE, "--output", "compiling")
    shutil.rmtree(folder / "compiling")
    print(f"done in {time.monotonic() - started:.0f} s", flush=True)


def expect(claim: str, holds: bool) -> None:
    """Says `claim` where it holds; `DemoFailed` where not."""
    if not holds:
        raise DemoFailed(f"not so: {claim}")
    print(f"-> {claim}", flush=True)


def unpack(packed: Path, folder: Path) -> None:
    """Unpacks an archive; sparse files stay sparse."""
    with (
        pa.OSFile(str(packed)) as raw,
        pa.CompressedInputStream(raw, "zstd") as stream,
        tarfile.open(fileobj=stream, mode="r|") as archive,
    ):
        archive.extractall(folder, filter="data")


def derived_files(store: Path) -> dict[str, Path]:
    """The derived files of a store, by what they are compared under: ConsumeQueue files by their path, IndexFiles by
    their place in the order of names, for those are the moments at which the files were made."""
    queues = sorted(path for path in (store / "consumequeue").rglob("*") if path.is_file())
    named = {path.relative_to(store).as_posix(): path for path in queues}
    indexes = sorted(path for path in (store / "index").iterdir() if path.is_file())
    return named | {f"index, file {number}": path for number, path in enumerate(indexes, 1)}


def compare(theirs: Path, ours: Path) -> tuple[int, list[str]]:
    """Compares the derived files of two stores byte by byte: how many are identical, and the names of the others."""
    left, right = derived_files(theirs), derived_files(ours)
    names = sorted(left.keys() | right.keys())
    differing = [
        name
        for name in names
        if name not in left or name not in right or not filecmp.cmp(left[name], right[name], shallow=False)
    ]
    return len(names) - len(differing), differing


def show_comparison(theirs: Path, ours: Path) -> None:
    """Prints how two stores compare; `DemoFailed` if they differ in anything, or hold nothing."""
    identical, differing = compare(theirs, ours)
    for name in differing:
        print(f"differs: {name}")
    size = sum(path.stat().st_size for path in derived_files(ours).values())
    total = identical + len(differing)
    print(f"-> {identical} of {total} files identical, {size / 1e6:,.0f} MB compared", flush=True)
    if differing or not total:
        raise DemoFailed("the rebuilt files are not the broker's")


def look_and_rebuild(folder: Path) -> None:
    """Steps 1 to 4."""
    step(
        1,
        "What a broker left behind",
        "This directory was written by a real RocketMQ 5.5.0 broker: its CommitLog holds every message in the order of "
        "arrival, and everything else in it (a ConsumeQueue for each queue, an IndexFile to find keys) only says where "
        "in that log to look.",
    )
    logdex(folder, "info", STORE)

    step(
        2,
        "The disaster",
        f"Only the CommitLog is copied to `{RESCUED}`; the indexes, the checkpoint and all else stay behind.",
    )
    print(f"\n$ mkdir {RESCUED} && cp -r {STORE}/commitlog {RESCUED}/", flush=True)
    shutil.copytree(folder / STORE / "commitlog", folder / RESCUED / "commitlog")

    step(
        3,
        "Rebuilding with Spark",
        "Spark scans the parts of the log in parallel and writes every queue's files and every IndexFile "
        "anew; Spark itself takes some seconds to start. No log states its broker's sizes and version: "
        "where nothing decides them, the broker's defaults are assumed, and said.",
    )
    logdex(folder, "rebuild", RESCUED, "--in-place", "--engine", "spark", "--master", "local[2]")

    step(4, "Are they the broker's?", "Every rebuilt file is compared with the broker's own, byte by byte.")
    show_comparison(folder / STORE, folder / RESCUED)


def ask(folder: Path, manifest: dict[str, Any]) -> None:
    """Steps 5 to 7."""
    question, sample = manifest["queries"][QUESTION], manifest["samples"][SAMPLE]
    topic, key = question["topic"], question["key"]
    step(
        5, "By key", f"The rebuilt index finds all messages about {key}, newest first, without reading the log through."
    )
    found = logdex(folder, "query", RESCUED, "--topic", topic, "--key", key)
    places = [int(place) for place in re.findall(r"  at (\d+)  ", found)]
    answer = question["physicalOffsets"]
    expect(
        f"the broker's engine gave the same {len(answer)} messages for this key, at {', '.join(map(str, answer))}",
        places == sorted(answer, reverse=True),
    )

    step(6, "By MessageID", "The id that a broker hands out is its address and the message's place in the CommitLog.")
    found = logdex(folder, "message", RESCUED, sample["msgId"])
    fields = dict(re.findall(r"^(\w+) +(\S+)", found, re.MULTILINE))
    wanted = (sample["topic"], str(sample["queueId"]), str(sample["queueOffset"]), str(sample["physicalOffset"]))
    expect(
        "the message that the broker's engine knows by this id",
        tuple(fields.get(name) for name in ("topic", "queue_id", "queue_offset", "physical_offset")) == wanted,
    )

    topic, queue, offset = sample["topic"], sample["queueId"], sample["queueOffset"]
    step(7, "By queue offset", f"That message was number {offset} of queue {queue}: a consumer reads on from there.")
    queue_flags = ("--queue", str(queue), "--offset", str(offset), "--count", "3")
    found = logdex(folder, "get", RESCUED, "--topic", topic, *queue_flags)
    places = [int(place) for place in re.findall(r"  at (\d+)  ", found)]
    expect("the same message, and the two behind it in its queue", len(places) == 3 and places[0] == int(wanted[3]))


def run(folder: Path) -> None:
    """All steps, in `folder`."""
    unpack(PACKED, folder)
    compile_kernels(folder)
    look_and_rebuild(folder)
    ask(folder, json.loads(MANIFEST.read_bytes()))


def main(arguments: list[str] | None = None) -> int:
    """The command; its exit code."""
    parser = argparse.ArgumentParser(prog="scripts/demo", description="Rebuilds a broker's indexes from its log alone.")
    parser.add_argument("--keep", action="store_true", help="keep the demo's folder, to try more commands there")
    keep = parser.parse_args(arguments).keep
    started = time.monotonic()
    folder = None
    try:
        folder = Path(tempfile.mkdtemp(prefix="logdex-demo-"))
        say("Logdex: a broker's indexes, rebuilt from its log alone.")
        say("Lines with $ can be typed as they are: `logdex` is .venv/bin/logdex, --keep keeps the folder.")
        run(folder)
    except DemoFailed as failure:
        print(f"\ndemo: {failure}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"\ndemo: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    finally:
        if folder is not None and not keep:
            shutil.rmtree(folder, ignore_errors=True)
    print(f"\nAll as it should be, in {time.monotonic() - started:.0f} s.")
    if keep:
        print(f"`{STORE}` and `{RESCUED}` are kept in {folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
