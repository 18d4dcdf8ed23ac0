"""Packed directories that real brokers wrote, of either format: where they lie, and unpacking
them."""

from __future__ import annotations

import tarfile
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa

ROOT = Path(__file__).resolve().parents[2]
SHARED = ROOT.parent / "shared"


def discover(folders: Iterable[Path]) -> dict[str, Path]:
    """Manifest path by case name; of two with one name, that of the earlier folder."""
    found: dict[str, Path] = {}
    for folder in folders:
        for manifest_path in sorted(folder.glob("*.json")):
            if manifest_path.with_suffix(".tar.zst").exists():
                found.setdefault(manifest_path.stem, manifest_path)
    return found


def extract(packed: Path, target: Path) -> None:
    """Unpacks one archive below `target`. Sparse files stay sparse."""
    with (
        pa.OSFile(str(packed)) as raw,
        pa.CompressedInputStream(raw, "zstd") as stream,
        tarfile.open(fileobj=stream, mode="r|") as archive,
    ):
        if hasattr(tarfile, "data_filter"):  # Python 3.11.4
            archive.extraction_filter = tarfile.data_filter
        archive.extractall(target)
