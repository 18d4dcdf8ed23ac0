"""`logdex warm-up`: compiles all kernels for this machine, which else the first commands do."""

from __future__ import annotations

from logdex.cli.app import app, epilog
from logdex.cli.find_view import view_of
from logdex.cli.output import emit
from logdex.cli.rows.in_bulk import texts_of
from logdex.cli.rows.row_options import RowOptions
from logdex.formats import FORMATS, detect, format_of
from logdex.io.env import DEFAULT_ENV
from logdex.jobs.work_time import use_kernels
from logdex.primitives.shown import counted


@app.command(
    name="warm-up",
    epilog=epilog(
        "logdex warm-up",
        notes="What is compiled is kept below ~/.cache/logdex (or XDG_CACHE_HOME), for this version of Logdex and this "
        "processor. Run it once where an image of a container is made.",
    ),
)
def warm_up() -> None:
    """Compile all kernels for this machine once, so that no later command has to."""
    import logging
    import tempfile

    compiled = use_kernels()
    disabled = logging.root.manager.disable
    logging.disable(logging.WARNING)  # a put that takes a second is one that compiles
    try:
        for name in FORMATS:
            with tempfile.TemporaryDirectory(prefix="logdex-warm-up-") as folder:
                _use_all(name, folder)
    finally:
        logging.disable(disabled)
    if not compiled.kernels:
        emit("Nothing to do: all kernels are compiled.")
    else:
        emit(f"Compiled {counted(compiled.kernels, 'kernel')} in {compiled.seconds:.1f} s.")


def _use_all(name: str, folder: str) -> None:
    """Does everything once that kernels are for, with a small log of a format in `folder`."""
    import random

    view, options = view_of(name, "warm_up"), {"sync": False, "env": DEFAULT_ENV}
    found = detect(view.make(folder))
    done = format_of(found)
    done.rebuild(found, view.REBUILD_SETTINGS, found.path, in_place=True, **options).run(None)
    view.look_up(found.path)
    for _ in view_of(name, "bench").measure(found, {}, random.Random(1), f"{folder}/bench"):
        pass
    done.verify(found, {}, max_findings=1)
    with done.open(found, env=DEFAULT_ENV) as snapshot:
        snapshot.scan().to_arrow().read_all()
        for as_json in (False, True):
            for _ in texts_of(snapshot.scan(), view.ROWS, RowOptions(as_json), jobs=1):
                pass
    view.damage(found.path)
    done.recover(found, {}, f"{folder}/recovered", in_place=False, **options).run(None)
