"""Find the place of every tag of an XML text, and check its shape against the limits.

The XML library keeps only line numbers and has no limits of its own that suit a configuration; this one pass over the
text, linear in its length, supplies both before the library sees it. It does not check syntax: at any unknown construct
it stops and leaves the verdict to the library. Called by :mod:`sowctl.config.includes`.
"""

from __future__ import annotations

import re

MAX_DEPTH = 64
MAX_NODES = 100_000
MAX_ATTRIBUTES = 1_000
MAX_REMARKS = 100_000
"""Comments, instructions and CDATA sections of one file: the XML library creates an object for each."""

_TAG_PATTERN = re.compile(r"<(/?)([^\s<>/\"'=!?&;]++)((?:[^\"'<>]++|\"[^\"<]*+\"|'[^'<]*+')*+)>")
_ATTRIBUTE = r"=\s*(?:\"[^\"]*\"|'[^']*')"


class Tag:
    """An element: its name, offset, offset of its content, and the numbers of its children.

    ``close`` is the offset of the end tag and ``end`` that after it, -1 if the pass ended before; in an element
    without content both are ``inner``.
    """

    __slots__ = ("children", "close", "end", "inner", "name", "start")

    def __init__(self, name: str, start: int, inner: int) -> None:
        self.name = name
        self.start = start
        self.inner = inner
        self.close = self.end = -1
        self.children: list[int] = []


class ConfigScan:
    """All start tags in document order, and the faults that the pass noticed.

    ``doctype`` is the offset of a document type declaration, at which the pass ends; ``unclosed`` a start tag that
    another element's end tag closes, and the offset of that end tag; ``exceeded`` the exceeded limit and the offset.
    """

    __slots__ = ("attributes", "doctype", "exceeded", "tags", "tops", "unclosed")

    def __init__(self) -> None:
        self.tags: list[Tag] = []
        self.tops: list[int] = []
        self.attributes = 0
        self.doctype: int | None = None
        self.unclosed: tuple[Tag, int] | None = None
        self.exceeded: tuple[str, int] | None = None


def scan_tags(text: str, *, nodes: int = MAX_NODES, attributes: int = MAX_ATTRIBUTES) -> ConfigScan:
    """Find all start tags; ``nodes`` and ``attributes`` are the remaining limits."""
    found = ConfigScan()
    open_tags: list[int] = []
    remarks = 0
    position = text.find("<")
    while position >= 0:
        if text.startswith(("<!", "<?"), position):
            end = _skip(text, position)
            remarks += 1
            if remarks > MAX_REMARKS:
                found.exceeded = ("remarks", position)
                break
            if end is None:
                if text.startswith("<!DOCTYPE", position):
                    found.doctype = position
                break
        else:
            # The pattern never backtracks (possessive), so no text makes it slow.
            match = _TAG_PATTERN.match(text, position)
            if match is None or not _take(found, open_tags, match, nodes, attributes):
                break
            end = match.end()
        position = text.find("<", end)
    return found


def _skip(text: str, position: int) -> int | None:
    """The end of a comment, CDATA section, or instruction; None for an unterminated or other construct."""
    for opening, closing in (("<!--", "-->"), ("<![CDATA[", "]]>"), ("<?", "?>")):
        if text.startswith(opening, position):
            end = text.find(closing, position + len(opening))
            return None if end < 0 else end + len(closing)
    return None


def _take(found: ConfigScan, open_tags: list[int], match: re.Match[str], nodes: int, attributes: int) -> bool:
    closing, name, rest = match.groups()
    if closing:
        if not open_tags:
            return False
        opened = found.tags[open_tags.pop()]
        # The unclosed start tag is recorded: the XML library would report only the end of the file.
        if opened.name != name:
            found.unclosed = (opened, match.start())
        opened.close, opened.end = match.span()
        return opened.name == name
    number = len(found.tags)
    found.tags.append(Tag(name, match.start(), match.end()))
    (found.tags[open_tags[-1]].children if open_tags else found.tops).append(number)
    if rest:
        found.attributes += len(re.findall(_ATTRIBUTE, rest))
    if not rest.endswith("/"):
        open_tags.append(number)
    else:
        found.tags[number].close = found.tags[number].end = match.end()
    limit = None
    # Checked before the XML library sees the text, which it would otherwise read into memory completely.
    if len(open_tags) > MAX_DEPTH:
        limit = "depth"
    elif number >= nodes:
        limit = "nodes"
    elif found.attributes > attributes:
        limit = "attributes"
    if limit is not None:
        found.exceeded = (limit, match.start())
    return limit is None


def blank_declaration(text: str) -> str:
    """The text with its XML declaration blanked out, all other characters at their old offsets."""
    if not text.startswith("<?xml") or text[5:6] not in (" ", "\t", "\n"):
        return text
    end = text.find("?>") + 2
    # Blanked, not removed, so that offsets and lines stay right.
    return "".join(character if character == "\n" else " " for character in text[:end]) + text[end:]
