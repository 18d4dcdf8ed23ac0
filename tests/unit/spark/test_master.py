"""Masters that answer, and those that do not: said at once."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from logdex.errors import EnvironmentProblem, UsageError
from logdex.spark.master import check_reachable, is_local


@pytest.fixture
def listening() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def closed() -> str:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


def test_a_master_that_answers(listening: str, closed: str) -> None:
    check_reachable(f"spark://{listening}")
    check_reachable(f"spark://{closed},{listening}")


@pytest.mark.parametrize("master", ["local", "local[2]", "local-cluster[2,1,1024]", "yarn", "k8s://https://nowhere:1"])
def test_others_are_not_asked(master: str) -> None:
    check_reachable(master)
    assert is_local(master) == master.startswith("local")


def test_a_master_that_does_not_answer(closed: str) -> None:
    with pytest.raises(EnvironmentProblem, match=f"no Spark master answers at spark://{closed} .*refused") as caught:
        check_reachable(f"spark://{closed}")
    assert caught.value.hint is not None
    assert "--master spark://HOST:7077" in caught.value.hint


def test_a_connect_server(listening: str, closed: str) -> None:
    check_reachable(f"sc://{listening}/;user_id=me")
    with pytest.raises(EnvironmentProblem, match=f"no Spark Connect server answers at sc://{closed} ") as caught:
        check_reachable(f"sc://{closed}")
    assert caught.value.hint == "start the server, or name a running one: --master sc://HOST:15002"
    with pytest.raises(UsageError, match="sc://host:port is no address of a Spark Connect server"):
        check_reachable("sc://host:port")


def test_a_host_that_is_unknown_or_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(EnvironmentProblem, match=r"at spark://nowhere\.invalid"):
        check_reachable("spark://nowhere.invalid")

    def silent(address: object, timeout_s: float) -> socket.socket:
        raise TimeoutError("timed out")

    monkeypatch.setattr(socket, "create_connection", silent)
    with pytest.raises(EnvironmentProblem, match="no answer in time"):
        check_reachable("spark://10.0.0.1:7077")


@pytest.mark.parametrize("master", ["spark://host:port", "spark://host:70 77"])
def test_no_address(master: str) -> None:
    with pytest.raises(UsageError, match=r"is no address of a Spark master"):
        check_reachable(master)


@pytest.mark.spark
def test_the_command_ends_at_once_and_says_what_to_type(closed: str) -> None:
    command = [sys.executable, "-m", "logdex", "doctor", "--master", f"spark://{closed}"]
    started = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert time.monotonic() - started < 30
    assert done.returncode == 2
    assert f"no Spark master answers at spark://{closed}" in done.stdout
    assert "start the Spark master" in done.stdout
