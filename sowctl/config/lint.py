"""``lint_files``: findings of every level over several configurations, selected by rule and severity.

The functions of ``sowctl lint``. The rules are those of :mod:`sowctl.config.rules.table`; comments in the files may
disable some (:mod:`sowctl.config.suppressions`). Ruled by ``sowctl-lint(7)``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from sowctl.config.document import ElementNode, SourceFile
from sowctl.config.problems import UNREADABLE_CODE, build_node_finding
from sowctl.config.rules.survey import Survey
from sowctl.config.rules.table import index_rules, select_rules
from sowctl.config.suppressions import apply_suppressions
from sowctl.config.validate import examine_config, sort_findings
from sowctl.errors import ConfigError, UsageError
from sowctl.findings import Finding, Level, Place

PEERS_RULE = "B039"
"""Instances of one Group with different definitions."""


class Linted(Struct, frozen=True):
    """One checked file: its findings by place, and whether it could not be read."""

    path: Path
    findings: list[Finding]
    readable: bool


def choose_rules(selected: Sequence[str] = (), ignored: Sequence[str] = ()) -> frozenset[str]:
    """The ids of the rules to report: those selected, or all, minus those ignored.

    Words are ids, titles, codes and prefixes of ids, each possibly a comma-separated list. Raises
    :class:`~sowctl.errors.UsageError` SOW-CFG-050 for an unknown word.
    """
    wanted = select_rules(_split(selected)) if selected else frozenset(index_rules())
    return wanted - select_rules(_split(ignored))


def _split(words: Iterable[str]) -> list[str]:
    return [part for word in words for part in word.replace(",", " ").split()]


def lint_files(
    paths: Sequence[str | Path],
    *,
    environment: Mapping[str, str],
    defines: Mapping[str, str] | None = None,
    fragment: bool = False,
    rules: frozenset[str] | None = None,
    least: Level = Level.INFO,
    given: Mapping[str, bytes] | None = None,
) -> Iterator[Linted]:
    """Each configuration with its findings of ``rules`` (default all) whose level is at least ``least``.

    Findings that make a file unusable are always reported. A directory is replaced by every ``*.xml`` below it, in the
    order of the names, except those that another one of them includes. ``given`` has the contents of files that are
    not to be read, by their names in ``paths``. A file that cannot be read has that as its only finding.
    Raises UsageError SOW-CFG-051 for a directory without such files.
    """
    active = frozenset(index_rules()) if rules is None else rules
    peers = Peers()
    seen: set[Path] = set()
    for named in paths:
        path = Path(named)
        candidates = _find_config_files(path) if path.is_dir() else [path]
        results = []
        included: set[Path] = set()
        for candidate in candidates:
            # Once, even if several names refer to it.
            if candidate.resolve() in seen:
                continue
            content = (given or {}).get(str(named))
            result, sources = _lint_file(candidate, active, least, environment, defines or {}, fragment, peers, content)
            included.update(Path(source.file).resolve() for source in sources[1:])
            results.append(result)
        # Held back until the whole directory was read: a later file may include an earlier one.
        for result in results:
            resolved = result.path.resolve()
            # An included file was checked as a part of the including one.
            if resolved not in seen and not (path.is_dir() and resolved in included):
                seen.add(resolved)
                yield result


def _find_config_files(directory: Path) -> list[Path]:
    found = sorted(path for path in directory.rglob("*.xml") if path.is_file())
    if not found:
        raise UsageError("SOW-CFG-051", f"{directory} has no *.xml files", hint="name a configuration")
    return found


def _lint_file(
    path: Path,
    active: frozenset[str],
    least: Level,
    environment: Mapping[str, str],
    defines: Mapping[str, str],
    fragment: bool,
    peers: Peers,
    given: bytes | None,
) -> tuple[Linted, tuple[SourceFile, ...]]:
    # All rules run, whatever their level: a comment that disables a rule below ``least`` still counts as used.
    try:
        found, document = examine_config(
            path, active, environment=environment, defines=defines, fragment=fragment, given=given
        )
    except ConfigError as error:
        if error.code != UNREADABLE_CODE:
            raise
        finding = Finding(UNREADABLE_CODE, Level.ERROR, Place(str(path)), error.message, error.hint)
        return Linted(path, [finding], False), ()
    if document is None:
        # No rule was checked; a selection of other rules must not hide that.
        unusable = [finding for finding in found if finding.id in active or finding.level >= Level.ERROR]
        return Linted(path, [f for f in sort_findings(unusable, (), str(path)) if f.level >= least], True), ()
    found.extend(peers.compare_instance(document.top))
    kept = apply_suppressions((finding for finding in found if finding.id in active), document.sources, active)
    shown = [finding for finding in sort_findings(kept, document.sources, str(path)) if finding.level >= least]
    return Linted(path, shown, True), document.sources


class Peer(Struct, frozen=True):
    """A checked instance: its file, Name, and SOW entries as kind, name and message type."""

    file: str
    name: str
    content: frozenset[tuple[str, str, str]]


class Peers:
    """The instances checked so far, by Group, for advice that needs several files.

    Only files with a Group are compared, and only those with different Names: two versions of one file are not two
    instances.
    """

    def __init__(self) -> None:
        self._seen: dict[str, list[Peer]] = {}

    def compare_instance(self, top: ElementNode) -> Iterator[Finding]:
        """The finding about an instance that differs from an earlier one of its Group; the instance is then
        remembered."""
        group, name = top.find("Group"), top.find_text("Name")
        if group is None or not group.text or not name:
            return
        content = frozenset((entry.kind, entry.name, entry.type) for entry in Survey(top, Path()).entries)
        earlier = self._seen.setdefault(group.text, [])
        for peer in earlier:
            here, there = content - peer.content, peer.content - content
            if peer.name != name and (here or there):
                kind, entry, _ = min(here or there)
                where = "here only" if here else f"in {Path(peer.file).name} only"
                message = (
                    f"instances with different content share the Group '{group.text}': {kind} '{entry}' is {where}"
                )
                hint = f"define the same as {peer.name}, or use another Group"
                yield build_node_finding(PEERS_RULE, group, message, hint, level=Level.WARNING)
                break
        earlier.append(Peer(top.source.file, name, content))
