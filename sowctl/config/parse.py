"""Bytes of one file to text, tags and elements: the only module that calls the XML library.

Bytes are decoded and refused here, shape and size are limited by :mod:`sowctl.config.scan` before the library sees the
text, and a document type is refused, so that nothing is ever expanded or fetched. Commands that only load a
configuration read a plain text with the parser that is in Python itself: importing the XML library takes 0.16 of what
``import typer, lxml.etree, lmdb`` does, the budget of ``get``: with it ``get`` takes 1.03 of that, with this parser
0.87. Called by :mod:`sowctl.config.includes`. Ruled by ``sow-config(5)``, file.
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
"""No declaration of an encoding ends behind so many letters of a text."""
_BOMS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_BOM_MARKS = tuple(mark for mark, _ in _BOMS)
_DECLARED_ENCODING_PATTERN = rb"<\?xml\b[^>]*?\bencoding\s*=\s*[\"']([A-Za-z][A-Za-z0-9._\-]*)[\"']"
_ENCODINGS = {"utf-8", "ascii", "utf-16", "cp1252", *(f"iso8859-{number}" for number in range(1, 17))}
_POSITION_PATTERN = r",? line \d+, column \d+$"
MAX_PLAIN_BYTES = 1 << 20
"""Bytes; of longer texts the library judges the limits of its own."""


class Broken(Exception):
    """Loading ends at this finding."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.message)
        self.finding = finding


def build_place_finding(rule: str, source: SourceFile, place: Place, message: str, hint: str | None = None) -> Finding:
    excerpt = source.build_excerpt(place.line or 1, place.column or 1)
    return Finding(rule, Level.ERROR, place, clip_text(message), hint and clip_text(hint), excerpt)


def read_config_file(path: Path) -> bytes:
    """Read at most one byte more than the limit, so that neither a huge file nor an endless one fills the memory."""
    with path.open("rb") as file:
        return file.read(MAX_FILE_BYTES + 1)


def decode_file(data: bytes, file: str) -> str:
    """The text with line ends normalised, as XML 1.0 section 2.11 has it. Breaks X014."""
    # A mark and a declaration that say different things are a fatal error (XML 1.0, section 4.3.3).
    encoding = next((name for mark, name in _BOMS if data.startswith(mark)), None)
    declared = (
        re.match(_DECLARED_ENCODING_PATTERN, data.removeprefix(codecs.BOM_UTF8)) if b"<?xml" in data[:8] else None
    )
    if encoding is None and declared is not None:
        encoding = declared[1].decode("ascii")
        try:
            # Python knows many more encodings, and codecs that are none; only the usual ones are accepted.
            known = codecs.lookup(encoding).name in _ENCODINGS
        except LookupError:
            known = False
        if not known:
            message = f"encoding '{encoding}' is not supported"
            raise Broken(Finding("X014", Level.ERROR, Place(file, 1, 1), message, "save the file as UTF-8"))
        if codecs.lookup(encoding).name == "utf-16":
            # The declaration was read byte by byte, so it contradicts itself.
            message = f"bytes are not valid {encoding}"
            raise Broken(Finding("X014", Level.ERROR, Place(file, 1, 1), message, "save the file as UTF-8"))
    encoding = encoding or "utf-8"
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        # The text before the fault, with its line ends as they count, gives line and column.
        before = data[: error.start].decode(encoding, "replace").replace("\r\n", "\n").replace("\r", "\n")
        place = Place(file, before.count("\n") + 1, len(before) - before.rfind("\n"), offset=error.start)
        message = f"bytes are not valid {encoding.upper()}: 0x{data[error.start]:02X}"
        raise Broken(Finding("X014", Level.ERROR, place, message, "save the file as UTF-8")) from None
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    if data.startswith(_BOM_MARKS):
        _refuse_contradiction(text, encoding, file)
    return text


def _refuse_contradiction(text: str, encoding: str, file: str) -> None:
    """Break X014 where a file that has a mark of ``encoding`` declares another one."""
    declared = re.match(_DECLARED_ENCODING_PATTERN, text[:_MAX_DECLARATION_CHARACTERS].encode("utf-8", "replace"))
    if declared is None:
        return
    try:
        known = codecs.lookup(declared[1].decode("ascii")).name
    except LookupError:
        known = ""
    # A mark of UTF-16 says the order of its bytes, which the declaration need not say.
    if known not in (encoding, encoding[: len("utf-16")]):
        name = encoding.upper()[: len("UTF-16")]
        message = f"the byte order mark is {name}, but the declared encoding is '{declared[1].decode('ascii')}'"
        raise Broken(Finding("X014", Level.ERROR, Place(file, 1, 1), message, f'declare encoding="{name}"'))


def find_unusual_bytes(data: bytes) -> str:
    """Describe bytes that no text needs: a byte order mark, carriage returns; empty where there are none."""
    found = ["a byte order mark"] if any(data.startswith(mark) for mark, _ in _BOMS) else []
    if b"\r\n" in data:
        found.append("CRLF line ends")
    return " and ".join(found)


def check_limits(source: SourceFile, found: ConfigScan) -> None:
    """Refuse a document type and what passes the limits."""
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

    They are the XML library's, or of a plain text, where ``plain`` allows it, those of a parser that is there sooner.
    """
    # Encoded again, so that parsers and scan judge the same characters whatever the file declares.
    body = blank_declaration(source.text)
    encoded = (f"<AMPSConfig>{body}</AMPSConfig>" if wrap else body).encode("utf-8", "surrogatepass")
    elements = (parse_plain_elements(encoded) if plain else None) or _library_elements(source, found, encoded)
    if wrap:
        # The element that was put around a fragment has no tag in the text, and must not shift the numbers.
        del elements[0]
    # Numbers link tags with elements. Where the two readers disagree no place would be right, so the file is refused.
    if len(elements) != len(found.tags):
        place = Place(source.file, 1, 1)
        raise Broken(Finding("X001", Level.ERROR, place, "not well-formed XML: invalid tags"))
    return elements


class PlainElement:
    """One element, with the attributes of the library's that the loader uses."""

    __slots__ = ("attrib", "tail", "text")

    def __init__(self, attrib: dict[str, str]) -> None:
        self.attrib = attrib
        self.text = ""
        self.tail = ""


class _Unusual(Exception):
    """Something that the two parsers may not understand alike."""


class _Builder:
    """Takes what the parser reports; character data belongs to the tag before it."""

    def __init__(self) -> None:
        self.elements: list[PlainElement] = []
        self.opened: list[PlainElement] = []
        self.closed: PlainElement | None = None

    def start(self, name: str, attributes: dict[str, str]) -> None:
        # The library would rename what has a prefix, and this parser passes it on as written.
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
        # As in the library: text in front of the first child is the element's, text behind a child that child's tail.
        if self.closed is None:
            self.opened[-1].text += text
        else:
            self.closed.tail += text


def parse_plain_elements(encoded: bytes) -> list[PlainElement] | None:
    """The elements of a document in UTF-8 without XML declaration, in document order; None where it is not plain.

    It reads what both parsers understand alike: no document type, namespace or instruction, names of ASCII letters, a
    text of moderate size. At anything else, and at every error, it declines: the library reads the text then, and words
    the error. A test holds that where it answers, the library gives the same.
    """
    # Asked before parsing: what declares or expands anything is judged by the library, and refused there.
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

    # A second barrier: document types were refused before, and the library is told to expand and fetch nothing.
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
    # The library counts lines of the text that it was given, which may have a line more at its end.
    line = min(max(error.lineno or 1, 1), len(source.newlines) + 1)
    return build_place_finding(
        "X001", source, Place(source.file, line, max(error.offset or 1, 1)), f"not well-formed XML: {message}", hint
    )
