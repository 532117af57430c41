"""Parse XML payloads with expat of the standard library, hardened (``sowctl-messages(7)``, xml).

No document type, hence no entities except those of XML itself and nothing from another file; at most
:data:`MAX_XML_DEPTH` nested elements. Namespaces are not interpreted: prefixes are characters of names and ``xmlns`` an
attribute, which is why this is not the parser of the configuration.
"""

from __future__ import annotations

import re
from typing import NoReturn
from xml.parsers import expat

from sowctl.messages.base import MALFORMED_CODE, TOO_DEEP_CODE, PayloadRefused

MAX_XML_DEPTH = 64
"""Maximum depth of nested elements."""

XML_SPACE = " \t\r\n"
UTF8_BOM = b"\xef\xbb\xbf"
"""The byte order mark of UTF-8."""
ENCODING_PATTERN = re.compile(rb"""(<\?xml[^>]*?encoding\s*=\s*["'])([A-Za-z0-9._-]+)""")
"""An XML declaration up to its encoding, which is the second group."""


def build_parser() -> expat.XMLParserType:
    """A parser that returns texts in few pieces and refuses document types."""
    parser = expat.ParserCreate()
    # expat returns a text in pieces, split at line breaks and entities among others. Buffered these are few, and each
    # handler joins its pieces.
    parser.buffer_text = True
    # Refused at its beginning, before any entity could be declared or expanded.
    parser.StartDoctypeDeclHandler = _refuse_doctype
    return parser


def refuse_contradiction(payload: bytes) -> None:
    """Raises PayloadRefused for a UTF-8 mark before a declaration of another encoding: a fatal error by XML 1.0,
    section 4.3.3, for which the parser would trust the declaration."""
    if payload.startswith(UTF8_BOM):
        named = ENCODING_PATTERN.match(payload, len(UTF8_BOM))
        if named is not None and named[2].lower() not in (b"utf-8", b"utf8"):
            words = f"a byte order mark of UTF-8 stands before a declaration of {named[2].decode()}"
            raise PayloadRefused(MALFORMED_CODE, words, named.start(2))


def parse_payload(parser: expat.XMLParserType, payload: bytes) -> None:
    """Parse one payload. Raises PayloadRefused; one raised by a handler gets the offset of the current position."""
    refuse_contradiction(payload)
    try:
        parser.Parse(payload, True)
    except expat.ExpatError as problem:
        words = expat.ErrorString(problem.code)
        place = f"line {problem.lineno}, column {problem.offset + 1}"
        raise PayloadRefused(MALFORMED_CODE, f"{words} ({place})", max(parser.ErrorByteIndex, 0)) from None
    except PayloadRefused as problem:
        # A handler knows the fault, the parser its place.
        problem.offset = max(parser.CurrentByteIndex, 0)
        raise
    # expat asks Python for encodings that it does not know. Python does not have all, and expat supports none with
    # multibyte characters.
    except (ValueError, LookupError) as problem:
        raise PayloadRefused(MALFORMED_CODE, f"the encoding cannot be read: {problem}", 0) from None


def _refuse_doctype(name: str, system: str | None, public: str | None, internal: bool) -> NoReturn:
    raise PayloadRefused(MALFORMED_CODE, "a document type is not allowed in a message")


def build_depth_refusal() -> PayloadRefused:
    """Return the refusal of a payload whose elements are nested too deeply."""
    return PayloadRefused(TOO_DEEP_CODE, f"more than {MAX_XML_DEPTH} elements inside one another")


def check_payload(payload: bytes) -> None:
    """Parse one payload only to check that it is readable. Raises PayloadRefused."""
    parser = build_parser()
    # An element needs a <, so fewer of them cannot be nested too deeply, and expat runs without Python handlers.
    if payload.count(b"<") > MAX_XML_DEPTH:
        _count_open(parser)
    parse_payload(parser, payload)


def _count_open(parser: expat.XMLParserType) -> None:
    depth = 0

    def start(name: str, attributes: dict[str, str]) -> None:
        nonlocal depth
        depth += 1
        if depth > MAX_XML_DEPTH:
            raise build_depth_refusal()

    def end(name: str) -> None:
        nonlocal depth
        depth -= 1

    parser.StartElementHandler = start
    parser.EndElementHandler = end
