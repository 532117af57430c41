"""A loaded configuration as light frozen nodes with file, line and column.

All packages except the loader see the XML as these nodes, so that only the loader needs an XML library.
Callers may keep nodes and ask them for places; only :mod:`sowctl.config.load` creates them. Ruled by
``sow-config(5)``, file and text.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from sowctl.findings import Place

XML_WHITESPACE = " \t\r\n"
"""White space as XML defines it; a no-break space is an ordinary character."""
VARIABLE_PATTERN = r"\$\{([^${}]*)\}"
_PIECE_PATTERN = r"(?s)<!--.*?-->|<!\[CDATA\[(.*?)\]\]>|<\?.*?\?>|&(#x?[0-9A-Fa-f]+|\w+);|(</?)|(.)"
_ENTITIES = {"lt": "<", "gt": ">", "amp": "&", "quot": '"', "apos": "'"}
_MAX_EXCERPT_CHARACTERS = 160


class SourceFile:
    """The text of one file, line ends normalised, and the variables that are expanded in it."""

    __slots__ = ("file", "newlines", "text", "variables")

    def __init__(self, file: str, text: str, variables: Mapping[str, str]) -> None:
        self.file = file
        self.text = text
        self.variables = variables
        self.newlines = tuple(match.start() for match in re.finditer("\n", text))

    def find_position(self, offset: int) -> tuple[int, int]:
        """Line and column (1-based, in characters) of a text offset."""
        before = bisect_left(self.newlines, offset)
        return before + 1, offset - (self.newlines[before - 1] if before else -1)

    def find_place(self, offset: int, element: str | None = None) -> Place:
        """The place of a text offset."""
        line, column = self.find_position(offset)
        return Place(self.file, line, column, element=element)

    def build_excerpt(self, line: int, column: int) -> str:
        """The source line with a caret under ``column``; of a very long line, the part around it."""
        start = self.newlines[line - 2] + 1 if line > 1 else 0
        end = self.newlines[line - 1] if line <= len(self.newlines) else len(self.text)
        cut = max(0, column - 1 - _MAX_EXCERPT_CHARACTERS // 2) if end - start > _MAX_EXCERPT_CHARACTERS else 0
        # A tabulator is one character and must stay one column wide, or the caret would be misplaced.
        content = self.text[start + cut : min(end, start + cut + _MAX_EXCERPT_CHARACTERS)].replace("\t", " ")
        return f"  {content}\n  {' ' * (column - 1 - cut)}^"


class ElementNode:
    """One element, never changed after loading: in ``text`` variables are expanded and outer white space is removed.

    ``inner`` is the offset of its content in ``source``, -1 for an element that the loader added; ``complete`` is false
    if an include below it could not be read.
    """

    __slots__ = ("attributes", "children", "complete", "inner", "place", "source", "tag", "text")

    def __init__(
        self,
        tag: str,
        text: str,
        attributes: Mapping[str, str],
        children: tuple[ElementNode, ...],
        place: Place,
        source: SourceFile,
        inner: int,
        complete: bool = True,
    ) -> None:
        self.tag = tag
        self.text = text
        self.attributes = attributes
        self.children = children
        self.place = place
        self.source = source
        self.inner = inner
        self.complete = complete

    def __repr__(self) -> str:
        return f"Node({self.tag!r}, {self.place})"

    def find(self, *tags: str) -> ElementNode | None:
        """The first child with one of these tags, tags in order of preference."""
        for tag in tags:
            for child in self.children:
                if child.tag == tag:
                    return child
        return None

    def find_all(self, *tags: str) -> Iterator[ElementNode]:
        """All children with one of these tags, in document order."""
        return (child for child in self.children if child.tag in tags)

    def find_text(self, *tags: str) -> str | None:
        """The text of :meth:`find`, or None."""
        child = self.find(*tags)
        return None if child is None else child.text

    def walk(self) -> Iterator[ElementNode]:
        """This node and all descendants, in document order."""
        yield self
        for child in self.children:
            yield from child.walk()

    def list_variables(self) -> tuple[str, ...]:
        """The names of the variables in the text as written."""
        if self.inner < 0 or "${" not in self.source.text:
            return ()
        return tuple(dict.fromkeys(re.findall(VARIABLE_PATTERN, _decode_text(self.source, self.inner)[0])))

    def find_place_in_text(self, line: int, column: int) -> Place:
        """The place in the file of a line and column of ``text``, through references, CDATA, and variables."""
        lines = self.text.split("\n")
        index = sum(len(part) + 1 for part in lines[: line - 1]) + column - 1
        decoded, offsets = _expand_variables(self.source, *_decode_text(self.source, self.inner))
        # The text was stripped on loading, so leading white space counts for the offset in the file.
        lead = len(decoded) - len(decoded.lstrip(XML_WHITESPACE))
        if self.inner < 0 or not offsets:
            return self.place
        return self.source.find_place(offsets[min(lead + index, len(offsets) - 1)], self.place.element)


def _decode_text(source: SourceFile, inner: int) -> tuple[str, list[int]]:
    """The character data from ``inner`` to the next tag, and the source offset of each character and of the end."""
    characters: list[str] = []
    offsets: list[int] = []
    position = max(inner, 0)
    for match in re.compile(_PIECE_PATTERN).finditer(source.text, position):
        position = match.start()
        # The next tag ends the text.
        if match[3]:
            break
        if match[1] is not None:
            # A CDATA section is literal in the file.
            characters.extend(match[1])
            offsets.extend(range(match.start(1), match.end(1)))
        elif match[2] is not None:
            # A reference is several characters in the file and one in the text: faults in it point to its beginning.
            characters.append(_decode_reference(match[2]))
            offsets.append(position)
        elif match[4] is not None:
            characters.append(match[4])
            offsets.append(position)
    offsets.append(position)
    return "".join(characters), offsets


def _decode_reference(reference: str) -> str:
    if reference.startswith("#x"):
        return chr(int(reference[2:], 16))
    if reference.startswith("#"):
        return chr(int(reference[1:]))
    return _ENTITIES.get(reference, "?")


def _expand_variables(source: SourceFile, text: str, offsets: list[int]) -> tuple[str, list[int]]:
    parts: list[str] = []
    places: list[int] = []
    last = 0
    for match in re.finditer(VARIABLE_PATTERN, text):
        value = source.variables.get(match[1])
        if value is None:
            continue
        parts += (text[last : match.start()], value)
        # Every character of a value points to the variable reference; the value itself is not in the file.
        places += offsets[last : match.start()] + [offsets[match.start()]] * len(value)
        last = match.end()
    return "".join((*parts, text[last:])), places + offsets[last:]


class Document(Struct, frozen=True, eq=False):
    """A configuration with includes inserted and variables replaced."""

    path: Path
    """The main file, as given."""
    directory: Path
    """Its directory, absolute."""
    root: Path
    """The base directory of relative paths in values."""
    top: ElementNode
    """The AMPSConfig element."""
    fragment: bool
    """Whether the top element was added around a fragment."""
    sources: tuple[SourceFile, ...] = ()
    """The texts of its files: the main file first, then the includes in the order in which they are met."""

    @property
    def synthetic_paths(self) -> frozenset[str]:
        """The paths of the elements that are in no file, added around the parts that a fragment holds."""
        # Only loading a fragment adds elements.
        if not self.fragment:
            return frozenset()
        found: set[str] = set()
        waiting = [self.top]
        while waiting:
            node = waiting.pop()
            if node.inner < 0:
                found.add(node.place.element or "")
                waiting.extend(node.children)
        return frozenset(found)
