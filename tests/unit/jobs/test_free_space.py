"""How much of a file is in use, whatever its length is."""

from __future__ import annotations

from pathlib import Path

import pytest

from logdex.errors import EnvironmentProblem
from logdex.io.env import Env
from logdex.jobs.free_space import used_bytes


@pytest.mark.parametrize("used", [0, 1, 4095, 4096, 4097, 100_000])
@pytest.mark.parametrize("zeros", [0, 1, 4096, 5_000_000])
def test_zeros_at_the_end_do_not_count(tmp_path: Path, used: int, zeros: int) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(used // 2) + b"x" * (used - used // 2))
    with path.open("r+b") as file:
        file.truncate(used + zeros)
    assert used_bytes(str(path), Env()) == used


def test_free_space_is_not_checked_if_told_so(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentProblem, match="about") as caught:
        Env().require_free(str(tmp_path), 1 << 62)
    assert "--no-space-check" in str(caught.value.hint)
    Env(check_space=False).require_free(str(tmp_path), 1 << 62)
