"""Writes the reference of the Python API: a page of HTML for each public module, from its
docstrings.

Run by scripts/reference.
"""

from __future__ import annotations

import sys
import warnings
from importlib import import_module
from pathlib import Path

import pdoc
import pdoc.render

JOBS = tuple(f"logdex.{home}.{job}" for home in ("rocketmq", "kafka") for job in ("verify", "rebuild", "recover"))
MODULES = ("logdex", "logdex.rocketmq", "logdex.kafka", *JOBS, "logdex.spark", "logdex.sql", "logdex.errors")


def write(output: Path) -> None:
    """Writes the pages into a folder, with an index of them."""
    for name in MODULES:
        module = import_module(name)
        for public in getattr(module, "__all__", ()):  # some are imported at their first use
            setattr(module, public, getattr(module, public))
    # Names that are imported for type checkers only are shown as they are written.
    warnings.filterwarnings("ignore", "Error parsing type annotation")
    pdoc.render.configure(docformat="markdown", show_source=False)
    pdoc.pdoc(*MODULES, output_directory=output)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
