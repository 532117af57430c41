"""Load a configuration: includes, variables, and nodes that know where they stand; it never leaves the tree.

Called by :mod:`sowctl.config.instance` (for every command) and :mod:`sowctl.config.validate`. One file at a time is
parsed by :mod:`sowctl.config.parse`; here includes are spliced in and ``${NAME}`` is replaced in a single pass. Ruled
by ``sow-config(5)``: file, Include, variables.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sowctl.config.document import SPACE, VARIABLE, Document, Node, Source
from sowctl.config.parse import (
    MAX_FILE,
    Broken,
    decode,
    finding_at,
    parse_elements,
    read_limited,
    refuse,
    unusual_bytes,
)
from sowctl.config.problems import TOO_DEEP, TOO_LARGE, UNREADABLE, as_error, clipped
from sowctl.config.scan import MAX_ATTRIBUTES, MAX_DEPTH, MAX_NODES, Scan, scan
from sowctl.errors import ConfigError
from sowctl.findings import Finding, Level, Place

MAX_INCLUDE_DEPTH = 10
MAX_INCLUDES = 1_000
DEFAULT_EXPANSION = 5 << 20
REFERENCE_VERSION = "5.3.5"
"""What AMPS_VERSION stands for: the version whose documentation the dialect follows."""
HOMES = {
    "Topic": "SOW", "View": "SOW", "ConflatedTopic": "SOW", "Queue": "SOW", "LocalQueue": "SOW",
    "GroupLocalQueue": "SOW", "TopicDefinition": "SOW", "ViewDefinition": "SOW", "QueueDefinition": "SOW",
    "ReplicaDefinition": "SOW", "Transport": "Transports", "Protocol": "Protocols", "MessageType": "MessageTypes",
    "Module": "Modules", "Function": "UserDefinedFunctions", "Target": "Logging", "Action": "Actions",
    "Destination": "Replication",
}  # fmt: skip
"""Where the top element of a fragment belongs."""
_SECTIONS = frozenset({*HOMES.values(), "TransactionLog"})


def load(
    path: str | Path,
    *,
    environment: Mapping[str, str],
    defines: Mapping[str, str] | None = None,
    fragment: bool = False,
    root: Path | None = None,
) -> Document:
    """Load ``path`` with its includes. ``defines`` win over ``environment``; ``root`` is the base of relative paths.

    With ``fragment`` a file whose top is not AMPSConfig is accepted and wrapped. Raises
    :class:`~sowctl.errors.ConfigError` with the code of the first X rule broken (SOW-CFG-001 to 017), or of a limit
    (SOW-CFG-020 to 022), or SOW-CFG-030 when the file cannot be read.
    """
    reader = _Reader(Path(path), environment, defines or {}, None)
    try:
        return reader.document(fragment, root)
    except Broken as stop:
        raise as_error(stop.finding) from None


def load_collecting(
    path: str | Path,
    *,
    environment: Mapping[str, str],
    defines: Mapping[str, str] | None = None,
    fragment: bool = False,
    root: Path | None = None,
) -> tuple[Document | None, list[Finding]]:
    """As :func:`load`, for checks: what breaks a rule is returned; without a usable document, None.

    An undefined variable or a missing include does not end the loading. Raises SOW-CFG-030 as :func:`load` does.
    """
    findings: list[Finding] = []
    reader = _Reader(Path(path), environment, defines or {}, findings)
    try:
        return reader.document(fragment, root), findings
    except Broken as stop:
        return None, [*findings, stop.finding]


class _Part:
    """One file after parsing: its source, its tags by number, and the library's elements by the same number."""

    def __init__(self, source: Source, found: Scan, elements: list[Any], chain: tuple[Path, ...]) -> None:
        self.source = source
        self.tags = found.tags
        self.tops = found.tops
        self.elements = elements
        self.chain = chain

    def broken(self, rule: str, number: int, element: str, message: str, hint: str | None = None) -> Finding:
        place = self.source.place(self.tags[number].start, element)
        return finding_at(rule, self.source, place, message, hint)


class _Reader:
    """One loading: the limits that all its files share, the variables, and where findings go."""

    def __init__(
        self, path: Path, environment: Mapping[str, str], defines: Mapping[str, str], findings: list[Finding] | None
    ) -> None:
        self.path = path
        self.directory = Path(path).absolute().parent
        self.tree = self.directory.resolve()
        built_in = {
            "AMPS_CONFIG_DIRECTORY": str(self.directory),
            "AMPS_CONFIG_PATH": str(self.directory / path.name),
            "AMPS_VERSION": REFERENCE_VERSION,
        }
        self.variables = {**environment, **built_in, **defines}
        self.built_in = built_in.keys() - defines.keys()
        self.findings = findings
        self.nodes = 0
        self.attributes = 0
        self.includes = 0
        self.bytes = 0
        self.inserted = 0
        self.ceiling = DEFAULT_EXPANSION
        self.sources: list[Source] = []
        self.named: set[str] = set()

    def document(self, fragment: bool, root: Path | None) -> Document:
        try:
            data = read_limited(self.path)
        except OSError as error:
            raise ConfigError(
                UNREADABLE,
                f"configuration cannot be read: {error.strerror or error}",
                place=str(self.path),
                hint="name a readable XML file",
            ) from None
        part, wrapped = self.parse(data, str(self.path), (self.path.resolve(),), fragment)
        self.ceiling = _ceiling(part)
        if wrapped:
            top = self.wrapped(part)
        else:
            found = self.included(part, 0, "")
            if found is None:
                raise Broken(part.broken("X005", 0, "/Include", "root element is 'Include', expected AMPSConfig"))
            part, number = found
            tag = part.tags[number]
            if tag.name != "AMPSConfig":
                hint = "names are case-sensitive; use --fragment to check a part of a configuration"
                message = f"root element is '{tag.name}', expected AMPSConfig"
                raise Broken(part.broken("X005", number, f"/{tag.name}", message, hint))
            top = self.node(part, number, "/AMPSConfig")
        base = self.directory if root is None else root
        return Document(self.path, self.directory, base, top, wrapped, tuple(self.sources))

    def report(self, finding: Finding) -> None:
        """Raise, or note and go on, as the caller asked."""
        if self.findings is None:
            raise Broken(finding)
        self.findings.append(finding)

    def note(self, rule: str, level: Level, source: Source, place: Place, message: str, hint: str) -> None:
        """Note what no loading stops at, where the caller collects."""
        if self.findings is not None:
            excerpt = source.excerpt(place.line or 1, place.column or 1)
            self.findings.append(Finding(rule, level, place, clipped(message), clipped(hint), excerpt))

    def parse(self, data: bytes, file: str, chain: tuple[Path, ...], fragment: bool) -> tuple[_Part, bool]:
        if len(data) > MAX_FILE:
            message = f"the file is larger than {MAX_FILE >> 20} MiB"
            raise Broken(Finding(TOO_LARGE, Level.ERROR, Place(file), message, "a configuration is a few kilobytes"))
        self.bytes += len(data)
        text = decode(data, file)
        source = Source(file, text, self.variables)
        self.sources.append(source)
        if self.findings is not None and (marks := unusual_bytes(data)):
            hint = "save the file as UTF-8 without a mark, with line feeds"
            self.note("X017", Level.INFO, source, source.place(0), f"the file has {marks}", hint)
        found = scan(text, nodes=MAX_NODES - self.nodes, attributes=MAX_ATTRIBUTES - self.attributes)
        refuse(source, found)
        self.nodes += len(found.tags)
        self.attributes += found.attributes
        wrap = fragment and [found.tags[number].name for number in found.tops] != ["AMPSConfig"]
        elements = parse_elements(source, found, wrap, plain=self.findings is None)
        return _Part(source, found, elements, chain), wrap

    def included(self, part: _Part, number: int, parent: str) -> tuple[_Part, int] | None:
        """What stands at this element: itself, or the root of the file that an Include names, if it can be read."""
        while part.tags[number].name == "Include":
            target = self.include(part, number, f"{parent}/Include")
            if target is None:
                return None
            part, number = target, 0
        return part, number

    def include(self, part: _Part, number: int, element: str) -> _Part | None:
        written = (part.elements[number].text or "").strip(SPACE)
        known = len(self.findings or ())
        text = self.expand(part, number, element, written).strip(SPACE)
        if any(finding.id == "X009" for finding in (self.findings or ())[known:]):
            return None
        if self.findings is not None:
            self.judge_include(part, number, element, written, text)
        # The name as written is kept for messages; only the resolved one decides what may be read.
        shown = Path(part.source.file).parent / text
        try:
            resolved = (part.chain[-1].parent / text).resolve()
            regular = resolved.is_file()
        except (OSError, ValueError, RuntimeError):
            resolved, regular = part.chain[-1].parent, False
        if text and resolved in part.chain:
            chain = " -> ".join(path.name for path in (*part.chain[part.chain.index(resolved) :], resolved))
            raise Broken(
                part.broken("X007", number, element, f"Include cycle: {chain}", "a file may not include an ancestor")
            )
        if len(part.chain) > MAX_INCLUDE_DEPTH or self.includes >= MAX_INCLUDES:
            message = f"includes are nested deeper than {MAX_INCLUDE_DEPTH} or there are more than {MAX_INCLUDES}"
            raise Broken(part.broken(TOO_DEEP, number, element, message))
        self.includes += 1
        outside = not resolved.is_relative_to(self.tree)
        try:
            if not text or outside or not regular:
                raise OSError(_reason(text, outside))
            data = read_limited(resolved)
        except OSError as error:
            detail = error.strerror or str(error)
            hint = "the path counts from the including file and must stay below the main file's directory"
            self.report(part.broken("X006", number, element, f"included file '{text}' cannot be read: {detail}", hint))
            return None
        inner, _ = self.parse(data, str(shown), (*part.chain, resolved), False)
        if self.bytes > self.ceiling:
            message = (
                f"expanded configuration is {self.bytes} bytes, above ConfigCycleDetectionThreshold ({self.ceiling})"
            )
            raise Broken(part.broken("X008", number, element, message))
        return inner

    def judge_include(self, part: _Part, number: int, element: str, written: str, text: str) -> None:
        """Say what is odd about an Include: its path, its attributes, elements inside it."""
        place = part.source.place(part.tags[number].start, element)
        if text and not Path(text).is_absolute():
            message = f"relative Include path '{written}' is ambiguous; here it counts from the including file"
            hint = f"write ${{AMPS_CONFIG_DIRECTORY}}/{written}"
            self.note("X016", Level.WARNING, part.source, place, message, hint)
        for name, value in part.elements[number].attrib.items():
            if name != "comment":
                hint = "remove it; comment is the one attribute of Include"
                message = f"unexpected attribute '{name}' on Include"
                self.note("X012", Level.WARNING, part.source, place, message, hint)
            elif value.strip().lower() not in ("true", "false"):
                message = f"Include comment attribute must be true or false, not '{value}'"
                self.note("X013", Level.WARNING, part.source, place, message, 'write comment="true" or remove it')

    def wrapped(self, part: _Part) -> Node:
        """AMPSConfig around the top elements, and where none of them is a section, the elements they belong in."""
        sections = any(tag.name in _SECTIONS for tag in (part.tags[number] for number in part.tops))
        loose: dict[tuple[str, ...], list[tuple[_Part, int]]] = {}
        for number in part.tops:
            found = self.included(part, number, "/AMPSConfig")
            if found is None:
                continue
            inner, index = found
            home = () if sections else _home(inner.tags[index].name)
            loose.setdefault(home, []).append((inner, index))
        top = self.around(part, loose, ())
        return Node("AMPSConfig", "", {}, top, part.source.place(0, "/AMPSConfig"), part.source, -1)

    def around(
        self, part: _Part, loose: dict[tuple[str, ...], list[tuple[_Part, int]]], above: tuple[str, ...]
    ) -> tuple[Node, ...]:
        """The loose elements that belong below ``above``, with those made up that are missing in between."""
        prefix = "/".join(("/AMPSConfig", *above))
        made: dict[str, tuple[str, ...]] = {}
        for home in loose:
            if home[: len(above)] == above and len(home) > len(above):
                made.setdefault(home[len(above)], (*above, home[len(above)]))
        nodes = list(self.siblings(loose.get(above, []), prefix))
        for tag, here in made.items():
            place = part.source.place(0, f"{prefix}/{tag}")
            nodes.append(Node(tag, "", {}, self.around(part, loose, here), place, part.source, -1))
        return tuple(nodes)

    def present(self, part: _Part, numbers: list[int], parent: str) -> list[tuple[_Part, int]]:
        """The children of an element, includes replaced; one that cannot be read is left out."""
        found = (self.included(part, number, parent) for number in numbers)
        return [child for child in found if child is not None]

    def siblings(self, members: list[tuple[_Part, int]], prefix: str) -> tuple[Node, ...]:
        """Build neighbours; a tag that occurs several times gets its number in the element path."""
        if members and prefix.count("/") > MAX_DEPTH:
            part, number = members[0]
            message = f"elements are nested deeper than {MAX_DEPTH} levels"
            raise Broken(part.broken(TOO_DEEP, number, prefix, message))
        names = [part.tags[number].name for part, number in members]
        counts = Counter(names) if len(names) > 1 else {}
        seen: dict[str, int] = {}
        nodes = []
        for (part, number), name in zip(members, names, strict=True):
            element = f"{prefix}/{name}"
            if counts and counts[name] > 1:
                seen[name] = seen.get(name, 0) + 1
                element = f"{element}[{seen[name]}]"
            nodes.append(self.node(part, number, element))
        return tuple(nodes)

    def node(self, part: _Part, number: int, element: str) -> Node:
        tag = part.tags[number]
        parsed = part.elements[number]
        text = parsed.text or ""
        children: tuple[Node, ...] = ()
        if tag.children:
            text = " ".join((text, *(part.elements[child].tail or "" for child in tag.children)))
            children = self.siblings(self.present(part, tag.children, element), element)
        if "${" in text:
            text = self.expand(part, number, element, text)
        attributes = {key: self.expand(part, number, element, value) for key, value in parsed.attrib.items()}
        place = part.source.place(tag.start, element)
        if self.findings is not None and (":" in tag.name or "xmlns" in part.source.text[tag.start : tag.inner]):
            message = f"namespace prefix or xmlns on {tag.name}; an element with a prefix is unknown"
            self.note("X015", Level.WARNING, part.source, place, message, "remove it; the dialect has no namespaces")
        complete = len(children) == len(tag.children)
        return Node(tag.name, text.strip(SPACE), attributes, children, place, part.source, tag.inner, complete)

    def expand(self, part: _Part, number: int, element: str, text: str) -> str:
        def value(match: re.Match[str]) -> str:
            name = match[1]
            if name not in self.variables:
                hint = f"set it in the environment or with -D{name}=VALUE"
                self.report(part.broken("X009", number, element, f"environment variable '{name}' is not set", hint))
                return match[0]
            if name in self.built_in and name not in self.named:
                self.named.add(name)
                place = part.source.place(part.tags[number].start, element)
                message = f"variable '{name}' supplied by built-in value {self.variables[name]}"
                self.note("X010", Level.INFO, part.source, place, message, f"to fix it pass --define {name}=VALUE")
            self.inserted += len(self.variables[name])
            if self.inserted > (limit := min(self.ceiling, MAX_FILE)):
                message = (
                    f"the values of variables are more than {limit} bytes, as ConfigCycleDetectionThreshold allows"
                )
                raise Broken(part.broken("X008", number, element, message, "write the value once"))
            return self.variables[name]

        return re.sub(VARIABLE, value, text)


def _home(tag: str) -> tuple[str, ...]:
    """The elements below AMPSConfig that a part of a configuration belongs in; of several places the most usual."""
    if tag in HOMES:
        return (HOMES[tag],)
    from sowctl.config.elements.homes import home

    return home(tag)


def _reason(text: str, outside: bool) -> str:
    if not text:
        return "no file is named"
    return "it lies outside the directory of the configuration" if outside else "there is no such file"


def _ceiling(part: _Part) -> int:
    """ConfigCycleDetectionThreshold of the main file, or its default where it is absent or no size."""
    from sowctl.values.units import parse_size

    for number, tag in enumerate(part.tags):
        if tag.name == "ConfigCycleDetectionThreshold":
            try:
                return parse_size(part.elements[number].text or "")
            except ValueError:
                break
    return DEFAULT_EXPANSION
