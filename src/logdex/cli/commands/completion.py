"""`logdex completion`: prints or installs what makes a shell complete the words of a command."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from logdex.cli.app import app, epilog
from logdex.cli.completing import COMPLETE_VARIABLE
from logdex.cli.output import emit, note
from logdex.errors import UsageError


class Shell(StrEnum):
    """The shells that can be asked for."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"
    POWERSHELL = "powershell"
    PWSH = "pwsh"


@app.command(
    epilog=epilog(
        "logdex completion",
        "logdex completion zsh",
        "logdex completion --install",
        notes="--install adds a line to the shell's start-up file and writes a file that the line reads: for bash "
        "~/.bashrc and ~/.bash_completions/logdex.sh. A new shell then completes commands, options and paths.",
    )
)
def completion(
    shell: Annotated[
        Shell | None, typer.Argument(help="The shell; by default the one that is running.", show_default=False)
    ] = None,
    install: Annotated[bool, typer.Option("--install", help="Install the script for new shells.")] = False,
) -> None:
    """Print the script with which a shell completes commands, options and paths, or install it."""
    from typer import completion as scripts

    name = _running_shell() if shell is None else shell
    if install:
        _, path = scripts.install(name, "logdex", COMPLETE_VARIABLE)  # type: ignore[attr-defined]  # not in its __all__
        note(f"wrote {path}; it takes effect in a new shell")
    else:
        script = scripts.get_completion_script(  # type: ignore[attr-defined]
            prog_name="logdex", complete_var=COMPLETE_VARIABLE, shell=name
        )
        for line in script.strip().splitlines():
            emit(line)


def _running_shell() -> str:
    import shellingham

    try:
        name = shellingham.detect_shell()[0]
    except shellingham.ShellDetectionFailure:
        name = ""
    if name not in list(Shell):
        raise UsageError("the running shell is not known", hint=f"name it: {', '.join(Shell)}")
    return str(name)
