"""``config add``: add elements to the text of a configuration and leave the rest unchanged.

The text is edited, not regenerated: comments, indentation, the order of elements, a byte order mark and the line ends
are preserved, and new elements get the indentation of their neighbours. Additions that would not validate are rejected
before anything is written. Ruled by ``sow-config(5)``.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from sowctl.config.document import Document, ElementNode
from sowctl.config.fixes import Edit, apply_edits
from sowctl.config.instance import build_instance
from sowctl.config.lint import lint_files
from sowctl.config.load import read_document
from sowctl.config.model import InstanceConfig, TopicConfig
from sowctl.config.new_elements import Child, NewElement, format_children, format_element
from sowctl.config.parse import MAX_FILE_BYTES, Broken, decode_file, read_config_file
from sowctl.config.problems import UNREADABLE_CODE, build_config_error, find_error_code
from sowctl.config.scan import ConfigScan, Tag, scan_tags
from sowctl.config.validate import validate_config
from sowctl.errors import ConfigError, MissingError, UsageError
from sowctl.findings import Finding

NAME_RULES = frozenset({"B019", "B020", "B021"})
"""Advice about the name of an element, which the user chose."""
_SECTION_NAMES = {"SOW": ("SOW", "TopicMetaData"), "TransactionLog": ("TransactionLog",)}
_ALIKE_NAMES = {"Topic": ("Topic", "TopicDefinition")}
_DEFAULT_INDENT = "  "
_REST_OF_LINE_PATTERN = re.compile(r"(?s)[ \t]*(?:<!--(?:(?!-->).)*-->)?[ \t]*(?=\n|\Z)")
"""The rest of an end tag's line if it is blank or holds a comment, which then belongs to the element."""


class NewPart(Struct, frozen=True):
    """An element for a section of the file, ``SOW`` or ``TransactionLog``."""

    section: str
    element: NewElement


class AddedPart(Struct, frozen=True):
    """A new element in the edited text, with its comments: its parent element, its first line, and its XML without
    indentation."""

    section: str
    line: int
    xml: str


class Addition(Struct, frozen=True):
    """The new content of a file, its new elements, and the warnings and advice that lint did not report before."""

    content: bytes
    parts: tuple[AddedPart, ...]
    findings: tuple[Finding, ...]


class _Block(Struct, frozen=True):
    """An edit that writes an element and its comments; they begin ``lead`` lines below the place of the edit."""

    edit: Edit
    section: str
    children: tuple[Child, ...]
    lead: int


class ConfigText:
    """A configuration file with its text, to which elements are added; ``config`` is its present model.

    ``environment`` and ``defines`` are those of :func:`sowctl.config.load.read_document`.
    """

    def __init__(self, path: Path, *, environment: Mapping[str, str], defines: Mapping[str, str] | None = None) -> None:
        """Read the file. Raises ConfigError: its first error, or ``SOW-CFG-030`` if it cannot be read."""
        self.path = path
        self._environment = environment
        self._defines = defines
        try:
            self.content = read_config_file(path)
        except OSError as error:
            raise ConfigError(
                UNREADABLE_CODE, f"the file cannot be read: {error.strerror}", place=str(path), hint="check the path"
            ) from error
        if errors := self._validate(self.content):
            raise build_config_error(errors[0])
        self._document: Document = read_document(path, environment=environment, defines=defines, given=self.content)
        self._text = self._decode(self.content)
        self._scan: ConfigScan = scan_tags(self._text)
        self.config: InstanceConfig = build_instance(self._document)

    def find_topic(self, name: str, message_type: str | None) -> TopicConfig:
        """The topic of SOW. Raises MissingError ``SOW-ENG-012``, or UsageError ``SOW-CLI-023`` for several types."""
        found = [entry for entry in self.config.find_entries(name, message_type) if isinstance(entry, TopicConfig)]
        if not found:
            from sowctl.config.suggestions import find_nearest

            known = [entry.name for entry in self.config.sow if isinstance(entry, TopicConfig)]
            close = find_nearest(name, known)
            raise MissingError(
                "SOW-ENG-012",
                f"topic {name!r} does not exist",
                hint=f"did you mean {close}?" if close else "sowctl config add topic adds one",
                topic=name,
            )
        if len(found) > 1:
            types = ", ".join(f"[{entry.message_type}].[{name}]" for entry in found)
            raise UsageError("SOW-CLI-023", f"{name!r} has several message types: {types}", hint="name one of them")
        return found[0]

    def add_parts(self, parts: Sequence[NewPart], chosen: frozenset[str] = frozenset()) -> Addition:
        """The file with new elements in their sections.

        Where lint advises against a name or, by one of the ``chosen`` rules, against a requested value, a comment
        beside the element disables that rule there. Raises UsageError ``SOW-CFG-067`` if the file would not validate,
        and ConfigError ``SOW-CFG-068`` if a section is in an included file or the encoding cannot represent the
        elements.
        """
        blocks = [self._place(part, ()) for part in parts]
        addition = self._apply(blocks)
        # Lint decides which of the choices are advised against in this file.
        remarks = [self._format_remark(addition, added, chosen | NAME_RULES) for added in addition.parts]
        if any(remarks):
            addition = self._apply([self._place(part, remark) for part, remark in zip(parts, remarks, strict=True)])
        return addition

    def set_children(self, topic: TopicConfig, element: NewElement) -> Addition:
        """The file with ``element`` as a child of a topic; an existing one gets the new values.

        Raises as :meth:`add_parts` does.
        """
        tag = self._find_tag(topic.node)
        section = f"SOW/{self._text[tag.start + 1 : tag.start + 1 + len(tag.name)]}"
        present = self._find_child(tag, (element.tag,))
        if present is None:
            return self._apply([self._insert(tag, section, (), element)])
        lead = self._text.count("\n", 0, present.start)
        edits = self._replace_values(present, element)
        content = self._encode(edits)
        xml = "\n".join(format_element(element, "", self._find_unit()))
        return self._judge(content, (AddedPart(section, lead + 1, xml),))

    # -- places --

    def _find_section(self, section: str) -> Tag | None:
        """The section in the main file, or None if absent. Raises ConfigError ``SOW-CFG-068``."""
        names = _SECTION_NAMES[section]
        node = self._document.top.find(*names)
        return None if node is None else self._find_tag(node)

    def _find_tag(self, node: ElementNode) -> Tag:
        """The tag of a node in the text. Raises ConfigError ``SOW-CFG-068`` if the node is in another file."""
        if node.source is self._document.sources[0]:
            for tag in self._scan.tags:
                if tag.inner == node.inner:
                    return tag
        raise ConfigError(
            "SOW-CFG-068",
            f"{node.tag} is in an included file",
            place=str(node.place),
            hint=f"edit {node.source.file}",
        )

    def _find_child(self, tag: Tag, names: Sequence[str]) -> Tag | None:
        """The last child with one of these names."""
        found = [self._scan.tags[number] for number in tag.children]
        return next((child for child in reversed(found) if child.name in names), None)

    def _place(self, part: NewPart, remark: tuple[str, ...]) -> _Block:
        section = self._find_section(part.section)
        if section is None:
            outer = NewElement(part.section, children=(*remark, part.element))
            return self._insert(self._find_tag(self._document.top), "AMPSConfig", (), outer)
        return self._insert(section, part.section, remark, part.element)

    def _insert(self, parent: Tag, section: str, remark: tuple[str, ...], element: NewElement) -> _Block:
        """Insert an element after the last one of its kind in ``parent``, else after the last child."""
        text = self._text
        children = [self._scan.tags[number] for number in parent.children]
        last = self._find_child(parent, _ALIKE_NAMES.get(element.tag, (element.tag,)))
        last = last or (children[-1] if children else None)
        outer = self._find_indent(parent)
        indent = outer + self._find_unit()
        if last is not None and (found := self._find_indent(last)) is not None and self._begins_line(last):
            indent = found
        unit = indent.removeprefix(outer) or self._find_unit()
        written: tuple[Child, ...] = (*remark, element)
        block = "\n".join(format_children(written, indent, unit))
        if last is not None:
            rest = _REST_OF_LINE_PATTERN.match(text, last.end)
            if rest is not None:
                return _Block(Edit(rest.end(), rest.end(), f"\n{block}"), section, written, 1)
            closing = f"\n{outer}" if text.startswith("</", last.end) else f"\n{indent}"
            edit = Edit(last.end, last.end, f"\n{block}{closing}")
            return _Block(edit, section, written, 1)
        if parent.close == parent.inner == parent.end:
            # <SOW/> becomes a start tag and an end tag.
            begin = len(text[: parent.inner - 2].rstrip())
            edit = Edit(begin, parent.inner, f">\n{block}\n{outer}</{parent.name}>")
            return _Block(edit, section, written, 1)
        begin = text.rfind("\n", 0, parent.close) + 1
        if begin > parent.inner and not text[begin : parent.close].strip():
            return _Block(Edit(begin, begin, f"{block}\n"), section, written, 0)
        edit = Edit(parent.close, parent.close, f"\n{block}\n{outer}")
        return _Block(edit, section, written, 1)

    def _replace_values(self, tag: Tag, element: NewElement) -> list[Edit]:
        """Give an element and its descendants the texts of ``element``. Raises ConfigError ``SOW-CFG-068``."""
        from sowctl.messages.xml.tree import escape_text

        if element.children:
            edits: list[Edit] = []
            for child in element.children:
                assert isinstance(child, NewElement)
                found = self._find_child(tag, (child.tag,))
                if found is None:
                    raise self._build_unclear_error(tag)
                edits += self._replace_values(found, child)
            return sorted(edits)
        if tag.close == tag.inner == tag.end or "<" in self._text[tag.inner : tag.close]:
            raise self._build_unclear_error(tag)
        return [Edit(tag.inner, tag.close, escape_text(element.text))]

    def _build_unclear_error(self, tag: Tag) -> ConfigError:
        place = self._document.sources[0].find_place(tag.start)
        return ConfigError(
            "SOW-CFG-068",
            f"{tag.name} holds comments, includes or other elements than expected",
            place=str(place),
            hint="edit the file",
        )

    # -- indentation --

    def _begins_line(self, tag: Tag) -> bool:
        begin = self._text.rfind("\n", 0, tag.start) + 1
        return not self._text[begin : tag.start].strip()

    def _find_indent(self, tag: Tag) -> str:
        """The white space at the beginning of an element's line."""
        begin = self._text.rfind("\n", 0, tag.start) + 1
        line = self._text[begin : tag.start]
        return line[: len(line) - len(line.lstrip(" \t"))]

    def _find_unit(self) -> str:
        """The indentation of one level: that of the first element that is indented more than its parent."""
        for tag in self._scan.tags:
            if tag.children and self._begins_line(child := self._scan.tags[tag.children[0]]):
                outer, inner = self._find_indent(tag), self._find_indent(child)
                if inner.startswith(outer) and inner != outer:
                    return inner.removeprefix(outer)
        return _DEFAULT_INDENT

    # -- the new text --

    def _decode(self, content: bytes) -> str:
        try:
            return decode_file(content, str(self.path))
        except Broken as stop:
            raise build_config_error(stop.finding) from None

    def _encode(self, edits: Sequence[Edit]) -> bytes:
        """The bytes of the file after edits of its text. Raises ConfigError ``SOW-CFG-068`` for another encoding."""
        wanted = apply_edits(self._text, edits)
        try:
            raw = self.content.decode()
            # Offsets count in the text without byte order mark and with line feeds only; the file keeps its own line
            # ends.
            mark = len(raw) - len(raw.removeprefix("\ufeff"))
            breaks = [found.start() - number for number, found in enumerate(re.finditer("\r\n", raw[mark:]))]
            ending = "\r\n" if breaks else "\n"
            moved = [
                Edit(
                    mark + edit.begin + bisect_left(breaks, edit.begin),
                    mark + edit.end + bisect_left(breaks, edit.end),
                    edit.text.replace("\n", ending),
                )
                for edit in edits
            ]
            content = apply_edits(raw, moved).encode()
        except UnicodeDecodeError:
            content = b""
        if len(content) > MAX_FILE_BYTES or self._decode(content or b" ") != wanted:
            raise ConfigError(
                "SOW-CFG-068",
                "the encoding of the file is not UTF-8",
                place=str(self.path),
                hint="save the file as UTF-8",
            )
        return content

    def _apply(self, blocks: Sequence[_Block]) -> Addition:
        ordered = sorted(blocks, key=lambda block: block.edit)
        parts, moved = {}, 0
        for block in ordered:
            line = self._text.count("\n", 0, block.edit.begin) + moved + block.lead + 1
            moved += block.edit.text.count("\n") - self._text.count("\n", block.edit.begin, block.edit.end)
            xml = "\n".join(format_children(block.children, "", self._find_unit()))
            parts[id(block)] = AddedPart(block.section, line, xml)
        content = self._encode([block.edit for block in ordered])
        return self._judge(content, tuple(parts[id(block)] for block in blocks))

    def _validate(self, content: bytes) -> list[Finding]:
        return validate_config(self.path, environment=self._environment, defines=self._defines, given=content)

    def _lint(self, content: bytes) -> list[Finding]:
        given = {str(self.path): content}
        (linted,) = lint_files([self.path], environment=self._environment, defines=self._defines, given=given)
        return linted.findings

    def _judge(self, content: bytes, parts: tuple[AddedPart, ...]) -> Addition:
        """Reject content that does not validate. Raises UsageError ``SOW-CFG-067``."""
        if errors := self._validate(content):
            first = errors[0]
            raise UsageError(
                "SOW-CFG-067",
                f"the file would not validate: {first.message}",
                hint=first.hint,
                excerpt=first.excerpt,
                rule=first.id,
                reason=find_error_code(first.id),
            )
        return Addition(content, parts, tuple(self._find_fresh(self._lint(content), parts)))

    def _find_fresh(self, findings: Sequence[Finding], parts: Sequence[AddedPart]) -> Iterator[Finding]:
        """Yield the findings that the file did not have before; those about the new elements first."""
        before = self._lint(self.content)
        told = {(finding.id, finding.message) for finding in before}
        # A finding may contain a count, so the message of an old finding may change.
        more = Counter(finding.id for finding in findings)
        more.subtract(finding.id for finding in before)
        for finding in sorted(findings, key=lambda one: not any(self._is_inside(one, part) for part in parts)):
            if more[finding.id] > 0 and (finding.id, finding.message) not in told:
                more[finding.id] -= 1
                yield finding

    def _is_inside(self, finding: Finding, part: AddedPart) -> bool:
        place = finding.place
        last = part.line + part.xml.count("\n")
        return place.file == str(self.path) and part.line <= (place.line or 0) <= last

    def _format_remark(self, addition: Addition, part: AddedPart, chosen: frozenset[str]) -> tuple[str, ...]:
        """The comment that disables the ``chosen`` rules for an element that breaks them."""
        rules = {finding.id for finding in addition.findings if finding.id in chosen and self._is_inside(finding, part)}
        return (f"sowctl: ignore {', '.join(sorted(rules))} because this is as asked for",) if rules else ()
