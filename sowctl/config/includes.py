"""The files of one configuration: the main file and its includes, with their variables and shared limits.

Created and used by :mod:`sowctl.config.load`, which builds the elements. :mod:`sowctl.config.parse` parses one file at
a time; this module decides which file an Include may name, expands ``${NAME}``, and raises or collects findings. Ruled
by ``sow-config(5)``: Include, variables.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sowctl.config.document import VARIABLE_PATTERN, XML_WHITESPACE, SourceFile
from sowctl.config.parse import (
    MAX_FILE_BYTES,
    Broken,
    build_place_finding,
    check_limits,
    decode_file,
    find_unusual_bytes,
    parse_elements,
    read_config_file,
)
from sowctl.config.problems import TOO_DEEP_CODE, TOO_LARGE_CODE, UNREADABLE_CODE, clip_text
from sowctl.config.scan import MAX_ATTRIBUTES, MAX_NODES, ConfigScan, scan_tags
from sowctl.errors import ConfigError
from sowctl.findings import Finding, Level, Place

MAX_INCLUDE_DEPTH = 10
MAX_INCLUDES = 1_000
DEFAULT_EXPANSION_BYTES = 5 << 20
REFERENCE_VERSION = "5.3.5"
"""The value of AMPS_VERSION: the version whose documentation defines the dialect."""


class IncludedPart:
    """One file after parsing: its source, its tags by number, and the library's elements by the same number."""

    def __init__(self, source: SourceFile, found: ConfigScan, elements: list[Any], chain: tuple[Path, ...]) -> None:
        self.source = source
        self.tags = found.tags
        self.tops = found.tops
        self.elements = elements
        self.chain = chain

    def build_finding(self, rule: str, number: int, element: str, message: str, hint: str | None = None) -> Finding:
        """A finding at tag ``number``, which breaks a rule."""
        place = self.source.find_place(self.tags[number].start, element)
        return build_place_finding(rule, self.source, place, message, hint)


def _readable_hint(path: Path) -> str:
    """Suggest a readable XML file or, for a directory, the configuration in it."""
    from sowctl.config.default_config import CONFIG_NAMES  # only a failed command needs it

    found = next((path / name for name in CONFIG_NAMES if (path / name).is_file()), None)
    return "name a readable XML file" if found is None else f"the configuration of this directory is {found}"


class Files:
    """One loading: the limits that all its files share, the variables, and the destination of findings.

    ``findings`` collects them; if None, the first one ends the loading, raised as Broken. ``given`` is the content of
    the main file if it has another source, such as a pipe; ``path`` then only names it.
    """

    def __init__(
        self,
        path: Path,
        environment: Mapping[str, str],
        defines: Mapping[str, str],
        findings: list[Finding] | None,
        given: bytes | None = None,
    ) -> None:
        self.path = path
        self.given = given
        self.directory = Path(path).absolute().parent
        # Links resolved, as for included files: otherwise a directory reached through a link would contain none of its
        # own files.
        self.tree = self.directory.resolve()
        built_in = {
            "AMPS_CONFIG_DIRECTORY": str(self.directory),
            "AMPS_CONFIG_PATH": str(self.directory / path.name),
            "AMPS_VERSION": REFERENCE_VERSION,
        }
        # In ascending precedence: the environment, the product's own variables, values of -D.
        self.variables = {**environment, **built_in, **defines}
        self.built_in = built_in.keys() - defines.keys()
        self.findings = findings
        self.nodes = 0
        self.attributes = 0
        self.includes = 0
        self.bytes = 0
        self.inserted = 0
        self.ceiling = DEFAULT_EXPANSION_BYTES
        self.sources: list[SourceFile] = []
        self.named: set[str] = set()

    def read_main(self, fragment: bool) -> tuple[IncludedPart, bool]:
        """The main file, and whether it is a fragment. Raises SOW-CFG-030 if it cannot be read, and Broken."""
        try:
            data = read_config_file(self.path) if self.given is None else self.given
        except OSError as error:
            raise ConfigError(
                UNREADABLE_CODE,
                f"configuration cannot be read: {error.strerror or error}",
                place=str(self.path),
                hint=_readable_hint(self.path),
            ) from None
        part, wrapped = self._parse(data, str(self.path), (self.path.resolve(),), fragment)
        self.ceiling = _read_expansion_limit(part)
        return part, wrapped

    def _report(self, finding: Finding) -> None:
        """Raise the finding or collect it, as the caller requested."""
        if self.findings is None:
            raise Broken(finding)
        self.findings.append(finding)

    def note_finding(self, rule: str, level: Level, source: SourceFile, place: Place, message: str, hint: str) -> None:
        """Collect a finding that never ends the loading; ignored if the caller does not collect."""
        if self.findings is not None:
            excerpt = source.build_excerpt(place.line or 1, place.column or 1)
            self.findings.append(Finding(rule, level, place, clip_text(message), clip_text(hint), excerpt))

    def _parse(self, data: bytes, file: str, chain: tuple[Path, ...], fragment: bool) -> tuple[IncludedPart, bool]:
        if len(data) > MAX_FILE_BYTES:
            message = f"the file is larger than {MAX_FILE_BYTES >> 20} MiB"
            raise Broken(
                Finding(
                    TOO_LARGE_CODE,
                    Level.ERROR,
                    Place(file),
                    message,
                    "check the path: a configuration usually has a few kilobytes",
                )
            )
        self.bytes += len(data)
        text = decode_file(data, file)
        source = SourceFile(file, text, self.variables)
        self.sources.append(source)
        if self.findings is not None and (marks := find_unusual_bytes(data)):
            hint = "save the file as UTF-8 without a byte order mark, with line feeds"
            self.note_finding("X017", Level.INFO, source, source.find_place(0), f"the file has {marks}", hint)
        found = scan_tags(text, nodes=MAX_NODES - self.nodes, attributes=MAX_ATTRIBUTES - self.attributes)
        check_limits(source, found)
        self.nodes += len(found.tags)
        self.attributes += found.attributes
        # A fragment that is a whole configuration needs no parent element.
        wrap = fragment and [found.tags[number].name for number in found.tops] != ["AMPSConfig"]
        # Only commands that load avoid importing the library; checks import more than that anyway.
        elements = parse_elements(source, found, wrap, plain=self.findings is None)
        return IncludedPart(source, found, elements, chain), wrap

    def resolve_include(self, part: IncludedPart, number: int, parent: str) -> tuple[IncludedPart, int] | None:
        """Return this element, or the root of the file that an Include names; None if it cannot be read."""
        # The root of an included file may itself be an Include.
        while part.tags[number].name == "Include":
            target = self._include(part, number, f"{parent}/Include")
            if target is None:
                return None
            part, number = target, 0
        return part, number

    def _include(self, part: IncludedPart, number: int, element: str) -> IncludedPart | None:
        written = (part.elements[number].text or "").strip(XML_WHITESPACE)
        known = len(self.findings or ())
        text = self.expand_variables(part, number, element, written).strip(XML_WHITESPACE)
        # A name with an unknown variable names no file; the missing variable has been reported.
        if any(finding.id == "X009" for finding in (self.findings or ())[known:]):
            return None
        if self.findings is not None:
            self._judge_include(part, number, element, written, text)
        # They would be lost: the root of the included file replaces the whole element.
        if part.tags[number].children:
            message = "Include contains child elements but takes text only"
            self._report(
                part.build_finding("S075", number, element, message, "write one <Include>path</Include> per file")
            )
            return None
        # Messages show the name as written; the resolved one decides whether the file may be read.
        shown = Path(part.source.file).parent / text
        try:
            resolved = (part.chain[-1].parent / text).resolve()
            regular = resolved.is_file()
        except (OSError, ValueError, RuntimeError):
            resolved, regular = part.chain[-1].parent, False
        # By resolved names: with links and ``..`` one file has many names.
        if text and resolved in part.chain:
            chain = " -> ".join(path.name for path in (*part.chain[part.chain.index(resolved) :], resolved))
            raise Broken(
                part.build_finding(
                    "X007", number, element, f"Include cycle: {chain}", "a file may not include an ancestor"
                )
            )
        # Files that include each other twice at each level multiply without a cycle; this limit ends that.
        if len(part.chain) > MAX_INCLUDE_DEPTH or self.includes >= MAX_INCLUDES:
            message = f"includes are nested deeper than {MAX_INCLUDE_DEPTH} or there are more than {MAX_INCLUDES}"
            raise Broken(part.build_finding(TOO_DEEP_CODE, number, element, message))
        self.includes += 1
        # After links are resolved, so that a link inside the directory cannot lead outside.
        outside = not resolved.is_relative_to(self.tree)
        try:
            if not text or outside or not regular:
                raise OSError(_explain_unreadable(text, outside))
            data = read_config_file(resolved)
        except OSError as error:
            detail = error.strerror or str(error)
            hint = "the path is relative to the including file, and must stay below the directory of the main file"
            self._report(
                part.build_finding("X006", number, element, f"included file '{text}' cannot be read: {detail}", hint)
            )
            return None
        inner, _ = self._parse(data, str(shown), (*part.chain, resolved), False)
        if self.bytes > self.ceiling:
            message = (
                f"expanded configuration is {self.bytes} bytes, above ConfigCycleDetectionThreshold ({self.ceiling})"
            )
            raise Broken(part.build_finding("X008", number, element, message))
        return inner

    def _judge_include(self, part: IncludedPart, number: int, element: str, written: str, text: str) -> None:
        """Note unusual paths and attributes of an Include."""
        place = part.source.find_place(part.tags[number].start, element)
        if text and not Path(text).is_absolute():
            message = f"relative Include path '{written}' is ambiguous; here it is relative to the including file"
            hint = f"write ${{AMPS_CONFIG_DIRECTORY}}/{written}"
            self.note_finding("X016", Level.WARNING, part.source, place, message, hint)
        for name, value in part.elements[number].attrib.items():
            if name != "comment":
                hint = "remove it; Include has only the attribute comment"
                message = f"unexpected attribute '{name}' on Include"
                self.note_finding("X012", Level.WARNING, part.source, place, message, hint)
            elif value.strip().lower() not in ("true", "false"):
                message = f"Include comment attribute must be true or false, not '{value}'"
                self.note_finding(
                    "X013", Level.WARNING, part.source, place, message, 'write comment="true" or remove it'
                )

    def expand_variables(self, part: IncludedPart, number: int, element: str, text: str) -> str:
        """The text of an element or attribute with variables replaced; their values are not expanded again."""

        def value(match: re.Match[str]) -> str:
            name = match[1]
            if name not in self.variables:
                # Commands that read records have no such option: they read a configuration as a service does.
                hint = f"set it in the environment; validate, lint and config show also have -D{name}=VALUE"
                self._report(
                    part.build_finding("X009", number, element, f"environment variable '{name}' is not set", hint)
                )
                return match[0]
            if name in self.built_in and name not in self.named:
                self.named.add(name)
                place = part.source.find_place(part.tags[number].start, element)
                message = f"variable '{name}' supplied by built-in value {self.variables[name]}"
                self.note_finding(
                    "X010", Level.INFO, part.source, place, message, f"to fix it pass --define {name}=VALUE"
                )
            self.inserted += len(self.variables[name])
            # A long value that is used often would exhaust the memory even if each file is small.
            if self.inserted > (limit := min(self.ceiling, MAX_FILE_BYTES)):
                message = f"the values of variables exceed {limit} bytes, the ConfigCycleDetectionThreshold"
                raise Broken(part.build_finding("X008", number, element, message, "write the value once"))
            return self.variables[name]

        # One pass: a value that contains ``${...}`` is inserted unchanged, so variables cannot refer to each other.
        return re.sub(VARIABLE_PATTERN, value, text)


def _explain_unreadable(text: str, outside: bool) -> str:
    if not text:
        return "the path is empty"
    return "it is outside the directory of the configuration" if outside else "the file does not exist"


def _read_expansion_limit(part: IncludedPart) -> int:
    """ConfigCycleDetectionThreshold of the main file, or its default if it is absent or no size."""
    from sowctl.values.units import parse_size

    for number, tag in enumerate(part.tags):
        if tag.name == "ConfigCycleDetectionThreshold":
            try:
                return parse_size(part.elements[number].text or "")
            except ValueError:
                break
    return DEFAULT_EXPANSION_BYTES
