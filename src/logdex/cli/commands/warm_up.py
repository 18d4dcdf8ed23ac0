"""`logdex warm-up`: compiles all kernels for this machine, which else the first commands do."""

from __future__ import annotations

from logdex.cli.app import app, epilog
from logdex.cli.find_view import view_of
from logdex.cli.output import emit
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
    import random
    import tempfile

    compiled = use_kernels()
    disabled = logging.root.manager.disable
    logging.disable(logging.WARNING)  # a put that takes a second is one that compiles
    try:
        for name in FORMATS:
            with tempfile.TemporaryDirectory(prefix="logdex-warm-up-") as folder:
                view = view_of(name, "warm_up")
                found = detect(view.make(folder))
                done = format_of(found)
                for _ in view_of(name, "bench").measure(found, {}, random.Random(1), f"{folder}/bench"):
                    pass
                done.verify(found, {}, max_findings=1)
                options = {"in_place": False, "sync": False, "env": DEFAULT_ENV}
                done.rebuild(found, view.REBUILD_SETTINGS, f"{folder}/rebuilt", **options).run(None)
                done.recover(found, {}, f"{folder}/recovered", **options).run(None)
                with done.open(found, env=DEFAULT_ENV) as snapshot:
                    snapshot.scan().to_arrow().read_all()
    finally:
        logging.disable(disabled)
    if not compiled.kernels:
        emit("Nothing to do: all kernels are compiled.")
    else:
        emit(f"Compiled {counted(compiled.kernels, 'kernel')} in {compiled.seconds:.1f} s.")
