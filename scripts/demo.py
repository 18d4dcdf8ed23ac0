"""The main job on files of real brokers, step by step: inspect, rebuild, compare, query; recover a
crashed log; then Spark's DataFrames and streams.

Run by scripts/demo. Exit status 0: all as expected; 1: a difference or a failed command; 2: the
demo cannot run here.
"""

from __future__ import annotations

import argparse
import filecmp
import hashlib
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

PACKED = Path(__file__).resolve().parent.parent / "tests" / "conformance" / "rocketmq" / "stores" / "demo.tar.zst"
MANIFEST = PACKED.with_name("demo.files.json")
"""The results of the real broker's engine on the store: sample messages, and its answers to some
queries."""

KAFKA = PACKED.parents[2] / "kafka" / "stores"
"""Log directories written by Kafka 4.4.0 brokers, each with the results of Kafka's own classes and
a consumer."""

PIPELINE = Path(__file__).with_name("pipeline.py")
STORE, RESCUED = "store", "rescued"
LOGS, BARE_LOGS, CRASHED, RECOVERED = "logs", "bare-logs", "crashed", "recovered"
CASES = {LOGS: "tiny-broker", CRASHED: "tiny-crash"}
DERIVED = (".index", ".timeindex", ".txnindex", ".snapshot", "leader-epoch-checkpoint")
SOME_WAY_IN = 60
"""The look-up by time that is shown has its answer above this offset."""
LOSSY = 3
SAMPLE = 2
QUESTION = 0
"""The indexes of the manifest's sample message and query that are shown."""


class DemoFailed(Exception):
    """A result is not as expected."""


def say(text: str = "") -> None:
    """Prints one paragraph."""
    print(textwrap.fill(text, 100), flush=True)


def step(number: int, title: str, text: str) -> None:
    """Prints the heading of one step."""
    print(f"\n== {number}. {title}", flush=True)
    say(text)


def logdex(folder: Path, *arguments: str, exit_code: int = 0) -> str:
    """Prints and runs `logdex ARGUMENTS` in `folder`; returns its output. Raises `DemoFailed` on
    another exit status."""
    print(f"\n$ {shlex.join(['logdex', *arguments])}", flush=True)
    printed = run_quietly(folder, *arguments, exit_code=exit_code)
    print(printed, end="", flush=True)
    return printed


def run_quietly(folder: Path, *arguments: str, exit_code: int = 0) -> str:
    """Runs `logdex` without printing its output. Its stderr is visible."""
    command = [sys.executable, "-m", "logdex", *arguments]
    done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, encoding="utf-8", errors="replace", check=False)
    if done.returncode != exit_code:
        raise DemoFailed(f"logdex {arguments[0]} ended with exit code {done.returncode}")
    return done.stdout


def compile_kernels(folder: Path) -> None:
    """Runs a rebuild so that all kernels are compiled before the steps. Compiled code is kept."""
    print("Compiling the scans for this machine (some ten seconds the first time) ... ", end="", flush=True)
    started = time.monotonic()
    for each in (STORE, LOGS):
        run_quietly(folder, "rebuild", each, "--output", "compiling", "--no-sync")
        shutil.rmtree(folder / "compiling")
    print(f"done in {time.monotonic() - started:.0f} s", flush=True)


def expect(claim: str, holds: bool) -> None:
    """Prints `claim` if it holds, else raises `DemoFailed`."""
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
        if hasattr(tarfile, "data_filter"):  # Python 3.11.4
            archive.extraction_filter = tarfile.data_filter
        archive.extractall(folder)


def derived_files(store: Path) -> dict[str, Path]:
    """The derived files of a store, by the names under which they are compared.

    ConsumeQueue files have their path, IndexFiles their place in the order of names, because an
    IndexFile's name is the time at which it was created.
    """
    queues = sorted(path for path in (store / "consumequeue").rglob("*") if path.is_file())
    named = {path.relative_to(store).as_posix(): path for path in queues}
    indexes = sorted(path for path in (store / "index").iterdir() if path.is_file())
    return named | {f"index, file {number}": path for number, path in enumerate(indexes, 1)}


def compare(theirs: Path, ours: Path) -> tuple[int, list[str]]:
    """Compares the derived files of two stores; returns (number of identical files, names of the
    others)."""
    left, right = derived_files(theirs), derived_files(ours)
    names = sorted(left.keys() | right.keys())
    differing = [
        name
        for name in names
        if name not in left or name not in right or not filecmp.cmp(left[name], right[name], shallow=False)
    ]
    return len(names) - len(differing), differing


def show_comparison(theirs: Path, ours: Path) -> None:
    """Prints how two stores compare. Raises `DemoFailed` if they differ or have no files."""
    identical, differing = compare(theirs, ours)
    for name in differing:
        print(f"differs: {name}")
    size = sum(path.stat().st_size for path in derived_files(ours).values())
    total = identical + len(differing)
    print(f"-> {identical} of {total} files identical, {size / 1e6:,.0f} MB compared", flush=True)
    if differing or not total:
        raise DemoFailed("the rebuilt files are not the broker's")


def look_and_rebuild(folder: Path) -> None:
    """Runs steps 1 to 4."""
    step(
        1,
        "What a broker left behind",
        "This directory was written by a real RocketMQ 5.5.0 broker: its CommitLog holds every message in the order of "
        "arrival. Everything else in it (a ConsumeQueue per queue, an IndexFile to find keys) only contains positions "
        "in that CommitLog.",
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
        "again; Spark itself takes some seconds to start. No log states its broker's sizes and version: "
        "if nothing determines them, the broker's defaults are assumed and reported.",
    )
    logdex(folder, "rebuild", RESCUED, "--in-place", "--engine", "spark", "--master", "local[2]")

    step(4, "Are they the broker's?", "Every rebuilt file is compared with the broker's own, byte by byte.")
    show_comparison(folder / STORE, folder / RESCUED)


def ask(folder: Path, manifest: dict[str, Any]) -> None:
    """Runs steps 5 to 7."""
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

    step(6, "By MessageID", "The id that a broker returns is its address and the message's physical offset.")
    found = logdex(folder, "message", RESCUED, sample["msgId"])
    fields = dict(re.findall(r"^(\w+) +(\S+)", found, re.MULTILINE))
    wanted = (sample["topic"], str(sample["queueId"]), str(sample["queueOffset"]), str(sample["physicalOffset"]))
    expect(
        "the message that the broker's engine knows by this id",
        tuple(fields.get(name) for name in ("topic", "queue_id", "queue_offset", "physical_offset")) == wanted,
    )

    topic, queue, offset = sample["topic"], sample["queueId"], sample["queueOffset"]
    step(7, "By queue offset", f"That message was number {offset} of queue {queue}: a consumer continues there.")
    queue_flags = ("--queue", str(queue), "--offset", str(offset), "--count", "3")
    found = logdex(folder, "get", RESCUED, "--topic", topic, *queue_flags)
    places = [int(place) for place in re.findall(r"  at (\d+)  ", found)]
    expect("the same message, and the next two of its queue", len(places) == 3 and places[0] == int(wanted[3]))


def kafka_manifest(name: str) -> dict[str, Any]:
    """The results of Kafka's own classes on one of the log directories."""
    manifest: dict[str, Any] = json.loads((KAFKA / f"{CASES[name]}.json").read_bytes())
    return manifest


def compare_with_recovery(rebuilt: Path, manifest: dict[str, Any]) -> tuple[int, list[str]]:
    """Compares rebuilt files, by SHA-256, with those of Kafka's own recovery of the same logs.

    Returns (number of identical files, names of the others).
    """
    recovered = [line for line in manifest["recovered"] if line["kind"] == "file" and line["name"].endswith(DERIVED)]
    theirs = {f"{line['partition']}/{line['name']}": line["sha256"] for line in recovered}
    ours = {
        path.relative_to(rebuilt).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in rebuilt.rglob("*")
        if path.is_file()
    }
    differing = [name for name in sorted(theirs.keys() | ours.keys()) if theirs.get(name) != ours.get(name)]
    return len(theirs.keys() | ours.keys()) - len(differing), differing


def show_recovery_comparison(rebuilt: Path, manifest: dict[str, Any]) -> None:
    """Prints how they compare. Raises `DemoFailed` if they differ or there are no files."""
    identical, differing = compare_with_recovery(rebuilt, manifest)
    for name in differing:
        print(f"differs: {name}")
    print(f"-> {identical} of {identical + len(differing)} files identical", flush=True)
    if differing or not identical:
        raise DemoFailed("the rebuilt files are not those of Kafka's recovery")


def look_into_kafka(folder: Path) -> None:
    """Runs steps 8 to 10."""
    manifest = kafka_manifest(LOGS)
    step(
        8,
        "Kafka: a broker's log directory",
        "Kafka keeps one log per partition, in segments, and beside each segment its indexes. The same commands work:",
    )
    logdex(folder, "info", LOGS)

    asked = [
        line for line in manifest["broker"] if (line["kind"], line.get("partition")) == ("offsetForTime", "orders-0")
    ]
    answer = next(line for line in asked if line.get("timestamp", -1) > line["query"] and line["offset"] > SOME_WAY_IN)
    step(9, "By time", "The time index leads to a position near the first record of that time, the .log to the record.")
    flags = ("--topic", "orders", "--partition", "0", "--time", str(answer["query"]), "--count", "2")
    found = logdex(folder, "get", LOGS, *flags)
    expect(
        f"a real consumer got the same offset for this time, {answer['offset']}",
        re.findall(r"  offset (\d+)  ", found)[:1] == [str(answer["offset"])],
    )

    step(
        10,
        "Every index from the .log files alone",
        f"Only these files are copied to `{BARE_LOGS}`. What is rebuilt is compared with what Kafka's own recovery "
        "wrote from the same logs: offset, time and transaction indexes, producer snapshots, leader epochs.",
    )
    print(f"\n$ mkdir {BARE_LOGS} && (cd {LOGS} && tar c */*.log) | tar x -C {BARE_LOGS}", flush=True)
    for log in (folder / LOGS).glob("*/*.log"):
        target = folder / BARE_LOGS / log.relative_to(folder / LOGS)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(log, target)
    interval = manifest["config"]["read"]["index.interval.bytes"]
    logdex(folder, "rebuild", BARE_LOGS, "--output", "rebuilt-logs", "--index-interval-bytes", interval)
    show_recovery_comparison(folder / "rebuilt-logs", manifest)


def recover_crashed(folder: Path) -> None:
    """Runs step 11."""
    step(
        11,
        "Recovering after a crash",
        "This broker was halted; then one log lost its end, another got zeros, and in a third one bit flipped. A "
        "broker that starts on it truncates each log at the first damaged batch. Logdex searches on after it.",
    )
    logdex(folder, "recover", CRASHED, "--output", RECOVERED, exit_code=LOSSY)
    logdex(folder, "verify", RECOVERED)
    loaded = kafka_manifest(CRASHED)["loaded"]["unclean"]
    kept = next(line["logEndOffset"] for line in loaded if (line["kind"], line.get("partition")) == ("log", "events-2"))
    printed = run_quietly(folder, "cat", RECOVERED, "--topic", "events", "--partition", "2", "--offset", str(kept))
    saved = len(printed.splitlines())
    expect(
        f"{saved} records of events-2 after the damage were recovered; the broker's own load ended before them, at "
        f"offset {kept}",
        saved > 0,
    )


def run_python(program: Path, folder: Path) -> str:
    """Runs a program in `folder`; returns its output. Its stderr is visible."""
    command = [sys.executable, str(program)]
    done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, encoding="utf-8", errors="replace", check=False)
    if done.returncode != 0:
        raise DemoFailed(f"{program.name} ended with exit code {done.returncode}")
    return done.stdout


def ask_with_spark(folder: Path) -> None:
    """Runs step 12."""
    step(
        12,
        "The pipeline",
        "Spark reads the broker's directory as a DataFrame, writes Parquet, and follows a store while messages are put "
        "into it. This is the program:",
    )
    print("\n" + textwrap.indent(PIPELINE.read_text("utf-8").split('"""\n', 2)[-1].strip(), "    "))
    print(f"\n$ python {PIPELINE.name}", flush=True)
    printed = run_python(PIPELINE, folder)
    print(printed, end="", flush=True)
    claims = ("'completed': 3000", "as Parquet: 9000 rows", "as a stream: 4000 rows, 4000 numbers")
    expect("the counts of the broker's messages, and each of ours once", all(each in printed for each in claims))


def run(folder: Path) -> None:
    """Runs all steps in `folder`."""
    unpack(PACKED, folder)
    for name, case in CASES.items():
        (folder / name).mkdir()
        unpack(KAFKA / f"{case}.tar.zst", folder / name)
    compile_kernels(folder)
    look_and_rebuild(folder)
    ask(folder, json.loads(MANIFEST.read_bytes()))
    look_into_kafka(folder)
    recover_crashed(folder)
    ask_with_spark(folder)


def main(arguments: list[str] | None = None) -> int:
    """Runs the command and returns its exit status."""
    parser = argparse.ArgumentParser(
        prog="scripts/demo", description="Rebuilds brokers' indexes from their logs alone."
    )
    parser.add_argument("--keep", action="store_true", help="keep the demo's directory, to try more commands there")
    keep = parser.parse_args(arguments).keep
    started = time.monotonic()
    folder = None
    try:
        folder = Path(tempfile.mkdtemp(prefix="logdex-demo-"))
        say("Logdex: brokers' indexes, rebuilt from their logs alone.")
        say("Lines with $ can be typed as they are: `logdex` is .venv/bin/logdex, and --keep keeps the directory.")
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
    print(f"\nEverything is as expected, in {time.monotonic() - started:.0f} s.")
    if keep:
        print(f"`{STORE}`, `{RESCUED}`, `{LOGS}`, `{CRASHED}` and the rest are kept in {folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
