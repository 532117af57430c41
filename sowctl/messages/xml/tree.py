"""XML payloads split into parts, so that parts can change while all others keep their bytes; and their JSON view.

Built by :func:`parse_document` for :mod:`sowctl.messages.xml.write`. A payload in another encoding is converted to
UTF-8 first, including its declaration.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TypeAlias

from sowctl.messages.base import MALFORMED_CODE, PayloadRefused
from sowctl.messages.xml.parse import (
    ENCODING_PATTERN,
    MAX_XML_DEPTH,
    UTF8_BOM,
    XML_SPACE,
    build_depth_refusal,
    build_parser,
    parse_payload,
    refuse_contradiction,
)

TEXT_MEMBER = "#text"
"""The member of an element that has its text, beside attributes and elements."""
_BOM_ENCODINGS = ((UTF8_BOM, "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))
_TAG_END = re.compile(rb"""<[^"'>]*(?:(?:"[^"]*"|'[^']*')[^"'>]*)*>""")


class XmlPart:
    """An element with its content: elements, and the bytes between them (text, comments, and so on)."""

    __slots__ = ("attributes", "items", "name", "opening", "texts")

    def __init__(self, name: str, attributes: dict[str, str], opening: bytes | None = None) -> None:
        self.name = name
        self.attributes = attributes
        self.opening = opening
        """Its start tag as in the payload; None once the attributes have changed."""
        self.items: list[XmlItem] = []
        self.texts: list[str] = []
        """Text and CDATA directly in it, as returned by the parser."""

    @property
    def text(self) -> str:
        """Text and CDATA directly in it."""
        return "".join(self.texts)

    @property
    def is_blank(self) -> bool:
        """Return True if it has no text of its own."""
        return not any(text.strip(XML_SPACE) for text in self.texts)

    @property
    def is_object(self) -> bool:
        """Return True if it counts as an object with members."""
        return bool(self.attributes) or any(isinstance(item, XmlPart) for item in self.items)

    def group_elements(self) -> dict[str, list[XmlPart]]:
        """The elements directly in it, by name."""
        found: dict[str, list[XmlPart]] = {}
        for item in self.items:
            if isinstance(item, XmlPart):
                found.setdefault(item.name, []).append(item)
        return found

    def iterate_bytes(self) -> Iterator[bytes]:
        """Yield the bytes of the element."""
        opening = self.opening or self._opening_tag()
        if not self.items:
            yield opening if opening.endswith(b"/>") else opening + b"</" + self.name.encode() + b">"
            return
        # An empty element has content now: its tag must open instead of closing itself.
        yield opening[:-2].rstrip() + b">" if opening.endswith(b"/>") else opening
        for item in self.items:
            if isinstance(item, XmlPart):
                yield from item.iterate_bytes()
            else:
                yield item
        yield b"</" + self.name.encode() + b">"

    def _opening_tag(self) -> bytes:
        members = "".join(f' {name}="{escape_attribute(value)}"' for name, value in self.attributes.items())
        return f"<{self.name}{members}/>".encode()


XmlItem: TypeAlias = XmlPart | bytes


class XmlDocument:
    """A whole payload: its root element and the bytes around it."""

    __slots__ = ("after", "before", "root")

    def __init__(self, before: bytes, root: XmlPart, after: bytes) -> None:
        self.before = before
        self.root = root
        self.after = after

    def build_payload(self) -> bytes:
        """The payload."""
        return b"".join([self.before, *self.root.iterate_bytes(), self.after])


def parse_document(payload: bytes) -> XmlDocument:
    """Parse ``payload`` into its parts. Raises PayloadRefused."""
    parser = build_parser()
    # The parser reports places in bytes; they are right for the payload only if it is UTF-8.
    taker = _PartBuilder(_as_utf8(payload))
    parser.StartElementHandler = lambda name, attributes: taker.start_element(name, attributes, parser.CurrentByteIndex)
    parser.EndElementHandler = lambda name: taker.end_element(parser.CurrentByteIndex)
    parser.CharacterDataHandler = taker.add_text
    try:
        parse_payload(parser, taker.payload)
    finally:
        # The handlers and the parser refer to each other: released here, without waiting for a collection of cycles.
        parser.StartElementHandler = parser.EndElementHandler = parser.CharacterDataHandler = None
    root = taker.top.items[1]
    assert isinstance(root, XmlPart) and isinstance(taker.top.items[0], bytes)
    return XmlDocument(taker.top.items[0], root, taker.payload[taker.position :])


class _PartBuilder:
    """Builds parts while the parser processes a payload."""

    def __init__(self, payload: bytes) -> None:
        self.payload = payload
        self.position = 0
        """The end of the bytes that have been stored."""
        # Represents the whole payload: it gets the root element and the bytes around it.
        self.top = XmlPart("", {})
        self.stack = [self.top]

    def start_element(self, name: str, attributes: dict[str, str], at: int) -> None:
        if len(self.stack) > MAX_XML_DEPTH:
            raise build_depth_refusal()
        # The parser has accepted the tag, so a ``>`` outside of quotes is its end.
        tag = _TAG_END.match(self.payload, at)
        assert tag is not None
        self.flush_bytes(at)
        part = XmlPart(name, attributes, tag[0])
        self.stack[-1].items.append(part)
        self.stack.append(part)
        self.position = tag.end()

    def end_element(self, at: int) -> None:
        part = self.stack.pop()
        assert part.opening is not None
        # A self-closing element has no end tag and no content.
        if not part.opening.endswith(b"/>"):
            self.stack.append(part)
            self.flush_bytes(at)
            self.stack.pop()
            self.position = self.payload.index(b">", at) + 1

    def add_text(self, data: str) -> None:
        self.stack[-1].texts.append(data)

    def flush_bytes(self, at: int) -> None:
        # Around the root an empty piece is stored, too: the root is then always the second item.
        if at > self.position or len(self.stack) == 1:
            self.stack[-1].items.append(self.payload[self.position : at])


def _as_utf8(payload: bytes) -> bytes:
    """``payload`` in UTF-8 without byte order mark. Raises PayloadRefused if it is not in its declared encoding."""
    refuse_contradiction(payload)
    # XML without a mark and without a declaration is UTF-8.
    encoding = "utf-8"
    for mark, name in _BOM_ENCODINGS:
        if payload.startswith(mark):
            # A mark decides; a declaration in UTF-16 is not read here.
            payload, encoding = payload[len(mark) :], name
            break
    else:
        named = ENCODING_PATTERN.match(payload)
        if named is not None:
            encoding = named[2].decode()
    if encoding.lower().replace("_", "-") in ("utf-8", "utf8", "us-ascii", "ascii"):
        return payload
    try:
        payload = payload.decode(encoding).encode()
    except (ValueError, LookupError) as problem:
        raise PayloadRefused(MALFORMED_CODE, f"the encoding cannot be read: {problem}", 0) from None
    # The declaration must name the present encoding.
    return ENCODING_PATTERN.sub(rb"\1UTF-8", payload, count=1)


def escape_text(text: str) -> str:
    """Text as the content of an element."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("\r", "&#13;")


def escape_attribute(text: str) -> str:
    """Text as the value of an attribute in double quotes."""
    text = escape_text(text).replace('"', "&quot;")
    # A parser converts line breaks and tabs in attributes to spaces; only references survive.
    return text.replace("\n", "&#10;").replace("\t", "&#9;")


def format_json_line(root: XmlPart) -> bytes:
    """The document as one line of JSON."""
    from sowctl.messages.json.text import quote_string

    return b"{" + quote_string(root.name) + b":" + _json_part(root) + b"}"


def _json_part(part: XmlPart) -> bytes:
    from sowctl.messages.json.text import format_untyped, quote_string

    # White space between elements is layout, not a value.
    text = b"null" if part.is_blank else format_untyped(part.text.encode())
    if not part.is_object:
        return text
    members = [
        quote_string("@" + name) + b":" + format_untyped(value.encode()) for name, value in part.attributes.items()
    ]
    for name, parts in part.group_elements().items():
        values = [_json_part(one) for one in parts]
        members.append(quote_string(name) + b":" + (values[0] if len(values) == 1 else b"[" + b",".join(values) + b"]"))
    if not part.is_blank:
        members.append(quote_string(TEXT_MEMBER) + b":" + text)
    return b"{" + b",".join(members) + b"}"
