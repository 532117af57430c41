"""``lint_files``: every finding of every level over several configurations, chosen by rule and severity.

The engine-level functions behind ``sowctl lint``. The rules are those of :mod:`sowctl.config.rules.table`; comments in
the files may switch some off (:mod:`sowctl.config.suppressions`). Ruled by ``sowctl-lint(7)``.
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
"""Instances of one Group that do not define the same."""


class Linted(Struct, frozen=True):
    """One file that was looked at: its findings by place, and whether it could be read at all."""

    path: Path
    findings: list[Finding]
    readable: bool


def choose_rules(selected: Sequence[str] = (), ignored: Sequence[str] = ()) -> frozenset[str]:
    """The ids of the rules to report: those selected, or all, less those ignored.

    Words are ids, titles, codes, beginnings of ids, each possibly a list separated by commas. Raises
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
    """Each configuration with its findings that are of ``rules`` (default all) and at least as bad as ``least``.

    What makes a file unusable is always reported. A directory stands for every ``*.xml`` below it, in the order of the
    names, except those that another one of them includes. ``given`` has the contents of files that are not to be read,
    by the names that ``paths`` has for them. A file that cannot be read has that as its one finding.
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
            # Once, however many names lead to it.
            if candidate.resolve() in seen:
                continue
            content = (given or {}).get(str(named))
            result, sources = _lint_file(candidate, active, least, environment, defines or {}, fragment, peers, content)
            included.update(Path(source.file).resolve() for source in sources[1:])
            results.append(result)
        # Held back until the whole directory was read: a file may be included by one that comes after it.
        for result in results:
            resolved = result.path.resolve()
            # What another file includes was judged as a part of that one.
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
    # Rules run whatever their level: a comment about one that is too mild to be shown is used all the same.
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
        # Nothing was judged, which a choice of other rules must not hide.
        unusable = [finding for finding in found if finding.id in active or finding.level >= Level.ERROR]
        return Linted(path, [f for f in sort_findings(unusable, (), str(path)) if f.level >= least], True), ()
    found.extend(peers.compare_instance(document.top))
    kept = apply_suppressions((finding for finding in found if finding.id in active), document.sources, active)
    shown = [finding for finding in sort_findings(kept, document.sources, str(path)) if finding.level >= least]
    return Linted(path, shown, True), document.sources


class Peer(Struct, frozen=True):
    """An instance that was seen: its file, Name, and SOW entries as kind, name and message type."""

    file: str
    name: str
    content: frozenset[tuple[str, str, str]]


class Peers:
    """The instances seen so far, by Group: advice across files, as far as one file cannot tell.

    Only files that name their Group are compared, and not those of one instance Name: two states of one file are no
    two instances.
    """

    def __init__(self) -> None:
        self._seen: dict[str, list[Peer]] = {}

    def compare_instance(self, top: ElementNode) -> Iterator[Finding]:
        """The finding about an instance that shares its Group with an unequal one before it; it is then kept too."""
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
