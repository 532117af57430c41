"""The elements of a plain XML text, read with the standard library's parser, for commands that only load.

Importing the XML library takes 0.16 of what ``import typer, lxml.etree, lmdb`` does, the budget of ``get``: with it
``get`` takes 1.03 of that, with this parser, which is in Python itself, 0.87. It reads what both
understand alike: no document type, namespace or instruction, names of ASCII letters, a text of moderate size. At
anything else, and at every error, :func:`parse_plain_elements` declines, and the library reads the text and words the
error; a test holds that where it answers, the library gives the same. Called by :mod:`sowctl.config.parse` only.
"""

from __future__ import annotations

from pyexpat import ExpatError, ParserCreate

MAX_PLAIN_BYTES = 1 << 20
"""Bytes; of longer texts the library judges the limits of its own."""


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
    """The elements of a document in UTF-8 without XML declaration, in document order; None where it is not plain."""
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
