"""Load a configuration: includes, variables, and nodes with their places; no file outside its directory is read.

Called by :mod:`sowctl.config.instance` (for every command) and :mod:`sowctl.config.validate`. Files and variables come
from :mod:`sowctl.config.includes`; this module builds one tree of nodes from their elements and wraps those of a
fragment in the sections that they belong in. Ruled by ``sow-config(5)``: file, Include, variables.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from sowctl.config.document import XML_WHITESPACE, Document, ElementNode
from sowctl.config.includes import Files, IncludedPart
from sowctl.config.parse import Broken
from sowctl.config.problems import TOO_DEEP_CODE, build_config_error
from sowctl.config.scan import MAX_DEPTH
from sowctl.findings import Finding, Level

FRAGMENT_SECTIONS = {
    "Topic": "SOW", "View": "SOW", "ConflatedTopic": "SOW", "Queue": "SOW", "LocalQueue": "SOW",
    "GroupLocalQueue": "SOW", "TopicDefinition": "SOW", "ViewDefinition": "SOW", "QueueDefinition": "SOW",
    "ReplicaDefinition": "SOW", "Transport": "Transports", "Protocol": "Protocols", "MessageType": "MessageTypes",
    "Module": "Modules", "Function": "UserDefinedFunctions", "Target": "Logging", "Action": "Actions",
    "Destination": "Replication",
}  # fmt: skip
"""The section of the top element of a fragment."""
_SECTIONS = frozenset({*FRAGMENT_SECTIONS.values(), "TransactionLog"})


def read_document(
    path: str | Path,
    *,
    environment: Mapping[str, str],
    defines: Mapping[str, str] | None = None,
    fragment: bool = False,
    root: Path | None = None,
    given: bytes | None = None,
) -> Document:
    """Load ``path`` with its includes. ``defines`` override ``environment``; ``root`` is the base of relative paths.

    ``given`` is the content if it is not read from ``path``, which then only names it. With ``fragment`` a file whose
    top is not AMPSConfig is accepted and wrapped. Raises :class:`~sowctl.errors.ConfigError` with the code of the first
    X rule broken (SOW-CFG-001 to 017), or of a limit (SOW-CFG-020 to 022), or SOW-CFG-030 if the file cannot be read.
    """
    files = Files(Path(path), environment, defines or {}, None, given)
    try:
        return _Tree(files).build_document(fragment, root)
    except Broken as stop:
        raise build_config_error(stop.finding) from None


def load_for_checks(
    path: str | Path,
    *,
    environment: Mapping[str, str],
    defines: Mapping[str, str] | None = None,
    fragment: bool = False,
    root: Path | None = None,
    given: bytes | None = None,
) -> tuple[Document | None, list[Finding]]:
    """Load ``path`` for checks: the document, or None if it is unusable, and the findings.

    An undefined variable or a missing include does not end the loading. Raises SOW-CFG-030 as :func:`read_document`
    does.
    """
    findings: list[Finding] = []
    files = Files(Path(path), environment, defines or {}, findings, given)
    try:
        return _Tree(files).build_document(fragment, root), findings
    except Broken as stop:
        # Earlier findings hold, although the rest of the file was not read.
        return None, [*findings, stop.finding]


class _Tree:
    """The nodes of one loading, built from the parsed files."""

    def __init__(self, files: Files) -> None:
        self.files = files

    def build_document(self, fragment: bool, root: Path | None) -> Document:
        files = self.files
        part, wrapped = files.read_main(fragment)
        if wrapped:
            top = self.wrap_top(part)
        else:
            found = files.resolve_include(part, 0, "")
            if found is None:
                raise Broken(
                    part.build_finding("X005", 0, "/Include", "root element is 'Include', expected AMPSConfig")
                )
            part, number = found
            tag = part.tags[number]
            if tag.name != "AMPSConfig":
                hint = "names are case-sensitive; use --fragment to check a part of a configuration"
                message = f"root element is '{tag.name}', expected AMPSConfig"
                raise Broken(part.build_finding("X005", number, f"/{tag.name}", message, hint))
            top = self.build_node(part, number, "/AMPSConfig")
        # Paths are relative to the configuration's directory, unless --root names another one (behaviour 11.30).
        base = files.directory if root is None else root
        return Document(files.path, files.directory, base, top, wrapped, tuple(files.sources))

    def wrap_top(self, part: IncludedPart) -> ElementNode:
        """Return AMPSConfig with the top elements, wrapped in the elements that they belong in unless one is a
        section."""
        # Sections become children of AMPSConfig unchanged; loose elements are wrapped in their sections.
        sections = any(tag.name in _SECTIONS for tag in (part.tags[number] for number in part.tops))
        loose: dict[tuple[str, ...], list[tuple[IncludedPart, int]]] = {}
        for number in part.tops:
            found = self.files.resolve_include(part, number, "/AMPSConfig")
            if found is None:
                continue
            inner, index = found
            home = () if sections else _find_parent_path(inner.tags[index].name)
            loose.setdefault(home, []).append((inner, index))
        top = self.wrap_elements(part, loose, ())
        return ElementNode("AMPSConfig", "", {}, top, part.source.find_place(0, "/AMPSConfig"), part.source, -1)

    def wrap_elements(
        self, part: IncludedPart, loose: dict[tuple[str, ...], list[tuple[IncludedPart, int]]], above: tuple[str, ...]
    ) -> tuple[ElementNode, ...]:
        """The loose elements that belong below ``above``, with the missing elements in between added."""
        prefix = "/".join(("/AMPSConfig", *above))
        made: dict[str, tuple[str, ...]] = {}
        for home in loose:
            # Each missing element is added once, for all loose ones below it.
            if home[: len(above)] == above and len(home) > len(above):
                made.setdefault(home[len(above)], (*above, home[len(above)]))
        nodes = list(self.build_siblings(loose.get(above, []), prefix))
        for tag, here in made.items():
            place = part.source.find_place(0, f"{prefix}/{tag}")
            nodes.append(ElementNode(tag, "", {}, self.wrap_elements(part, loose, here), place, part.source, -1))
        return tuple(nodes)

    def resolve_children(self, part: IncludedPart, numbers: list[int], parent: str) -> list[tuple[IncludedPart, int]]:
        """The children of an element, includes replaced; one that cannot be read is left out."""
        found = (self.files.resolve_include(part, number, parent) for number in numbers)
        return [child for child in found if child is not None]

    def build_siblings(self, members: list[tuple[IncludedPart, int]], prefix: str) -> tuple[ElementNode, ...]:
        """Build siblings; a tag that occurs several times gets its number in the element path."""
        # Checked again: each file is within the limit by itself, but includes nest them.
        if members and prefix.count("/") > MAX_DEPTH:
            part, number = members[0]
            message = f"elements are nested deeper than {MAX_DEPTH} levels"
            raise Broken(part.build_finding(TOO_DEEP_CODE, number, prefix, message))
        names = [part.tags[number].name for part, number in members]
        counts = Counter(names) if len(names) > 1 else {}
        seen: dict[str, int] = {}
        nodes = []
        for (part, number), name in zip(members, names, strict=True):
            element = f"{prefix}/{name}"
            if counts and counts[name] > 1:
                seen[name] = seen.get(name, 0) + 1
                element = f"{element}[{seen[name]}]"
            nodes.append(self.build_node(part, number, element))
        return tuple(nodes)

    def build_node(self, part: IncludedPart, number: int, element: str) -> ElementNode:
        tag = part.tags[number]
        parsed = part.elements[number]
        text = parsed.text or ""
        children: tuple[ElementNode, ...] = ()
        if tag.children:
            # Text between children is kept, too: the checks report a value that an element interrupts.
            text = " ".join((text, *(part.elements[child].tail or "" for child in tag.children)))
            children = self.build_siblings(self.resolve_children(part, tag.children, element), element)
        # Most texts have no variable and skip the search.
        if "${" in text:
            text = self.files.expand_variables(part, number, element, text)
        attributes = {
            key: self.files.expand_variables(part, number, element, value) for key, value in parsed.attrib.items()
        }
        place = part.source.find_place(tag.start, element)
        if self.files.findings is not None and (":" in tag.name or "xmlns" in part.source.text[tag.start : tag.inner]):
            message = f"namespace prefix or xmlns on {tag.name}; an element with a prefix is unknown"
            self.files.note_finding(
                "X015", Level.WARNING, part.source, place, message, "remove it; the dialect has no namespaces"
            )
        # An unreadable include leaves a gap; rules about missing elements must not report it.
        complete = len(children) == len(tag.children)
        return ElementNode(
            tag.name, text.strip(XML_WHITESPACE), attributes, children, place, part.source, tag.inner, complete
        )


def _find_parent_path(tag: str) -> tuple[str, ...]:
    """The elements below AMPSConfig that a part of a configuration belongs in; of several places the most usual."""
    if tag in FRAGMENT_SECTIONS:
        return (FRAGMENT_SECTIONS[tag],)
    from sowctl.config.elements.parent_paths import find_parent_path

    return find_parent_path(tag)
