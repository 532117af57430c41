"""Bytes of one file to text, tags and elements: the only module that calls the XML library.

This module decodes and rejects bytes, applies the limits of structure and size (:mod:`sowctl.config.scan`) before the
library sees the text, and rejects document types, so that nothing is ever expanded or fetched. Commands that only load
a configuration read a plain text with Python's own parser: importing the XML library takes 0.16 of the time of
``import typer, lxml.etree, lmdb``, the budget of ``get``, which takes 1.03 of it with the library and 0.87 with this
parser. Called by :mod:`sowctl.config.includes`. Ruled by ``sow-config(5)``, file.
"""

from __future__ import annotations

import codecs
import re
from pathlib import Path
from pyexpat import ExpatError, ParserCreate
from typing import TYPE_CHECKING, Any

from sowctl.config.document import SourceFile
from sowctl.config.problems import TOO_DEEP_CODE, TOO_MANY_CODE, clip_text
from sowctl.config.scan import MAX_ATTRIBUTES, MAX_DEPTH, MAX_NODES, MAX_REMARKS, ConfigScan, blank_declaration
from sowctl.findings import Finding, Level, Place

if TYPE_CHECKING:
    from lxml.etree import XMLSyntaxError

MAX_FILE_BYTES = 16 << 20
_LIMIT_MESSAGES = {
    "depth": (TOO_DEEP_CODE, f"elements are nested deeper than {MAX_DEPTH} levels"),
    "nodes": (TOO_MANY_CODE, f"the file has more than {MAX_NODES} elements"),
    "remarks": (TOO_MANY_CODE, f"the file has more than {MAX_REMARKS} comments and instructions"),
    "attributes": (TOO_MANY_CODE, f"the file has more than {MAX_ATTRIBUTES} attributes"),
}
_MAX_DECLARATION_CHARACTERS = 200
"""Maximum length of an encoding declaration in characters."""
_BOMS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_BOM_MARKS = tuple(mark for mark, _ in _BOMS)
_DECLARED_ENCODING_PATTERN = rb"<\?xml\b[^>]*?\bencoding\s*=\s*[\"']([A-Za-z][A-Za-z0-9._\-]*)[\"']"
_ENCODINGS = {"utf-8", "ascii", "utf-16", "cp1252", *(f"iso8859-{number}" for number in range(1, 17))}
_POSITION_PATTERN = r",? line \d+, column \d+$"
MAX_PLAIN_BYTES = 1 << 20
"""Bytes; for longer texts the library applies its own limits."""


class Broken(Exception):
    """Ends the loading with this finding."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.message)
        self.finding = finding


def build_place_finding(rule: str, source: SourceFile, place: Place, message: str, hint: str | None = None) -> Finding:
    excerpt = source.build_excerpt(place.line or 1, place.column or 1)
    return Finding(rule, Level.ERROR, place, clip_text(message), hint and clip_text(hint), excerpt)


def read_config_file(path: Path) -> bytes:
    """Read at most one byte more than the limit, so that a huge or endless file cannot exhaust the memory."""
    with path.open("rb") as file:
        return file.read(MAX_FILE_BYTES + 1)


def decode_file(data: bytes, file: str) -> str:
    """The text with line ends normalised as in XML 1.0, section 2.11. Breaks X014."""
    # A byte order mark that contradicts the declaration is a fatal error (XML 1.0, section 4.3.3).
    encoding = next((name for mark, name in _BOMS if data.startswith(mark)), None)
    declared = (
        re.match(_DECLARED_ENCODING_PATTERN, data.removeprefix(codecs.BOM_UTF8)) if b"<?xml" in data[:8] else None
    )
    if encoding is None and declared is not None:
        encoding = declared[1].decode("ascii")
        try:
            # Python has many more encodings, and codecs that are no encodings; only the usual ones are accepted.
            known = codecs.lookup(encoding).name in _ENCODINGS
        except LookupError:
            known = False
        if not known:
            message = f"encoding '{encoding}' is not supported"
            raise Broken(Finding("X014", Level.ERROR, Place(file, 1, 1), message, "save the file as UTF-8"))
        if codecs.lookup(encoding).name == "utf-16":
            # The declaration was read as single bytes, so it contradicts itself.
            message = f"bytes are not valid {encoding}"
            raise Broken(Finding("X014", Level.ERROR, Place(file, 1, 1), message, "save the file as UTF-8"))
    encoding = encoding or "utf-8"
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        # The text before the fault, with normalised line ends, gives line and column.
        before = data[: error.start].decode(encoding, "replace").replace("\r\n", "\n").replace("\r", "\n")
        place = Place(file, before.count("\n") + 1, len(before) - before.rfind("\n"), offset=error.start)
        message = f"bytes are not valid {encoding.upper()}: 0x{data[error.start]:02X}"
        raise Broken(Finding("X014", Level.ERROR, place, message, "save the file as UTF-8")) from None
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    if data.startswith(_BOM_MARKS):
        _refuse_contradiction(text, encoding, file)
    return text


def _refuse_contradiction(text: str, encoding: str, file: str) -> None:
    """Break X014 if a file with a byte order mark of ``encoding`` declares another encoding."""
    declared = re.match(_DECLARED_ENCODING_PATTERN, text[:_MAX_DECLARATION_CHARACTERS].encode("utf-8", "replace"))
    if declared is None:
        return
    try:
        known = codecs.lookup(declared[1].decode("ascii")).name
    except LookupError:
        known = ""
    # A UTF-16 mark gives the byte order, which the declaration may omit.
    if known not in (encoding, encoding[: len("utf-16")]):
        name = encoding.upper()[: len("UTF-16")]
        message = f"the byte order mark is {name}, but the declared encoding is '{declared[1].decode('ascii')}'"
        raise Broken(Finding("X014", Level.ERROR, Place(file, 1, 1), message, f'declare encoding="{name}"'))


def find_unusual_bytes(data: bytes) -> str:
    """Describe unnecessary bytes: a byte order mark, carriage returns; empty if there are none."""
    found = ["a byte order mark"] if any(data.startswith(mark) for mark, _ in _BOMS) else []
    if b"\r\n" in data:
        found.append("CRLF line ends")
    return " and ".join(found)


def check_limits(source: SourceFile, found: ConfigScan) -> None:
    """Reject a document type and files that exceed the limits."""
    if found.exceeded is not None:
        limit, offset = found.exceeded
        rule, message = _LIMIT_MESSAGES[limit]
        raise Broken(build_place_finding(rule, source, source.find_place(offset), message))
    if found.doctype is not None:
        from sowctl.config.doctype import DOCTYPE_HINT, judge_doctype

        refused = judge_doctype(source.text, found.doctype)
        raise Broken(
            build_place_finding(refused.rule, source, source.find_place(refused.offset), refused.message, DOCTYPE_HINT)
        )


def parse_elements(source: SourceFile, found: ConfigScan, wrap: bool, *, plain: bool) -> list[Any]:
    """The elements in document order, one for every tag. Breaks X001.

    They are the XML library's or, for a plain text if ``plain`` allows it, those of Python's parser, which imports
    faster.
    """
    # Encoded again, so that parsers and scan read the same characters, whatever encoding the file declares.
    body = blank_declaration(source.text)
    encoded = (f"<AMPSConfig>{body}</AMPSConfig>" if wrap else body).encode("utf-8", "surrogatepass")
    elements = (parse_plain_elements(encoded) if plain else None) or _library_elements(source, found, encoded)
    if wrap:
        # The element added around a fragment has no tag in the text, and must not shift the numbers.
        del elements[0]
    # Numbers link tags with elements. If the two readers disagree, places would be wrong, so the file is rejected.
    if len(elements) != len(found.tags):
        place = Place(source.file, 1, 1)
        raise Broken(Finding("X001", Level.ERROR, place, "not well-formed XML: invalid tags"))
    return elements


class PlainElement:
    """One element, with the attributes of the library's elements that the loader uses."""

    __slots__ = ("attrib", "tail", "text")

    def __init__(self, attrib: dict[str, str]) -> None:
        self.attrib = attrib
        self.text = ""
        self.tail = ""


class _Unusual(Exception):
    """A construct that the two parsers may interpret differently."""


class _Builder:
    """Builds elements from parser events; character data belongs to the tag before it."""

    def __init__(self) -> None:
        self.elements: list[PlainElement] = []
        self.opened: list[PlainElement] = []
        self.closed: PlainElement | None = None

    def start(self, name: str, attributes: dict[str, str]) -> None:
        # The library would rename prefixed names, while this parser returns them as written.
        for written in (name, *attributes):
            if ":" in written or written == "xmlns" or not written.isascii():
                raise _Unusual
        element = PlainElement(attributes)
        self.elements.append(element)
        self.opened.append(element)
        self.closed = None

    def end(self, _: str) -> None:
        self.closed = self.opened.pop()

    def data(self, text: str) -> None:
        # As in the library: text before the first child is the element's text, text after a child is its tail.
        if self.closed is None:
            self.opened[-1].text += text
        else:
            self.closed.tail += text


def parse_plain_elements(encoded: bytes) -> list[PlainElement] | None:
    """The elements of a document in UTF-8 without XML declaration, in document order; None if it is not plain.

    A text is plain if both parsers interpret it alike: no document type, namespace or instruction, names of ASCII
    letters, moderate size. For any other text, and for every error, the result is None: the library then reads the text
    and words the error. A test checks that any other result equals the library's.
    """
    # Checked before parsing: declarations and expansions are judged, and rejected, by the library.
    if len(encoded) > MAX_PLAIN_BYTES or b"<?" in encoded or b"<!DOCTYPE" in encoded:
        return None
    builder = _Builder()
    parser = ParserCreate("utf-8")
    parser.buffer_text = True
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.data
    try:
        parser.Parse(encoded, True)
    except (ExpatError, _Unusual):
        return None
    return builder.elements


def _library_elements(source: SourceFile, found: ConfigScan, encoded: bytes) -> list[Any]:
    from lxml import etree

    # A second barrier: document types were rejected before, and the library must not expand or fetch anything.
    parser = etree.XMLParser(
        encoding="utf-8",
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        dtd_validation=False,
        huge_tree=False,
        remove_comments=True,
        remove_pis=True,
    )
    try:
        return list(etree.fromstring(encoded, parser).iter("*"))
    except etree.XMLSyntaxError as error:
        raise Broken(_build_xml_finding(source, found, error)) from None


def _build_xml_finding(source: SourceFile, found: ConfigScan, error: XMLSyntaxError) -> Finding:
    if found.unclosed is not None:
        tag, end = found.unclosed
        line, _ = source.find_position(end)
        message = f"not well-formed XML: <{tag.name}> is not closed before the end tag on line {line}"
        return build_place_finding("X001", source, source.find_place(tag.start), message, f"write </{tag.name}>")
    message = re.sub(_POSITION_PATTERN, "", str(error.msg or "")).strip()
    hint = "write &amp; for & and &lt; for < in text" if "EntityRef" in message else None
    if not source.text.strip():
        message, hint = "the file is empty", "sowctl config init creates a first configuration"
    # The library's text may have an additional line at its end.
    line = min(max(error.lineno or 1, 1), len(source.newlines) + 1)
    return build_place_finding(
        "X001", source, Place(source.file, line, max(error.offset or 1, 1)), f"not well-formed XML: {message}", hint
    )
