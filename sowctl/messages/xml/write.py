"""Rewrite XML payloads: delta merge, constructed fields, select lists, new messages (``sowctl-messages(7)``, xml).

Works on the parts of :mod:`sowctl.messages.xml.tree`. All untouched parts keep their bytes, including comments.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from sowctl.errors import InputError, UsageError
from sowctl.messages.base import NO_SUCH_FIELD, UNWRITABLE_CODE, ListRefused, Members, SelectList, Tree
from sowctl.messages.directives import PathDirective, build_directives
from sowctl.messages.xml.parse import XML_SPACE
from sowctl.messages.xml.tree import TEXT_MEMBER, XmlPart, escape_text
from sowctl.values.fields import FieldWrite, Scalar, SlotValue
from sowctl.values.scalars import to_text, to_untyped_scalar

_NAME_PATTERN = re.compile(r"[^\W\d][\w.:·-]*")
_FORBIDDEN_CHARACTERS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


def merge_part(base: XmlPart, delta: XmlPart, set_nulls: bool) -> bool:
    """Write the content of ``delta`` into ``base``, an element of the same name; return whether anything counted.

    A single element is merged with a single one: attributes and elements by name; text of its own replaces all content.
    If either side has several, or ``base`` none, those of ``delta`` replace.
    """
    changed = False
    for name, value in delta.attributes.items():
        # A blank value is NULL, and NULL changes nothing unless ``set_nulls``.
        if set_nulls or value.strip(XML_SPACE):
            _set_attribute(base, name, value)
            changed = True
    below = delta.group_elements()
    # Text of its own makes it a value, not an object, so it replaces all content.
    if not delta.is_blank or (set_nulls and not below and not delta.attributes):
        base.items, base.texts = delta.items, delta.texts
        return True
    if not below:
        return changed
    present = base.group_elements()
    # The base was a value; it becomes an object now and loses its text.
    if not present and any(_has_content(part, set_nulls) for parts in below.values() for part in parts):
        _set_content(base, [])
    news: dict[str, list[XmlPart]] = {}
    for name, parts in below.items():
        old = present.get(name, [])
        # Several elements of one name are an array, and arrays are replaced completely.
        if len(parts) == 1 and len(old) == 1:
            # Every pair is merged, even after one has counted: no short-circuit ``or``.
            changed |= merge_part(old[0], parts[0], set_nulls)
        elif set_nulls or any(_has_content(part, set_nulls) for part in parts):
            news[name] = parts if len(parts) > 1 or set_nulls else [_without_nulls(parts[0])]
    _replace_elements(base, news)
    return changed or bool(news)


def _has_content(part: XmlPart, set_nulls: bool) -> bool:
    """Return True if an element of a delta counts: not if it contains only NULLs."""
    if set_nulls or not part.is_blank or any(value.strip(XML_SPACE) for value in part.attributes.values()):
        return True
    return any(_has_content(item, False) for item in part.items if isinstance(item, XmlPart))


def _without_nulls(part: XmlPart) -> XmlPart:
    """A new element to be added: its own NULLs, unlike those in arrays, are omitted."""
    if not part.is_blank:
        return part
    # Without its start tag, which is then rebuilt from the remaining attributes.
    bare = XmlPart(part.name, {name: value for name, value in part.attributes.items() if value.strip(XML_SPACE)})
    counts = {name: len(parts) for name, parts in part.group_elements().items()}
    for item in part.items:
        if isinstance(item, XmlPart):
            if counts[item.name] > 1:
                bare.items.append(item)
            elif _has_content(item, False):
                bare.items.append(_without_nulls(item))
    return bare


def assign_fields(root: XmlPart, writes: Sequence[FieldWrite]) -> None:
    """Write and remove constructed fields, in order."""
    for one in writes:
        if one.remove:
            _remove_element(root, one.destination.names)
        else:
            _write_element(root, one.destination.names, one.value)


def build_document(fields: Members) -> bytes:
    """A document of these fields, which must all have the same first step."""
    root = XmlPart(_find_root({names[0] for names, _ in fields}), {})
    for names, value in fields:
        _write_element(root, names, value)
    return b"".join(root.iterate_bytes())


def build_tree_document(tree: Tree) -> bytes:
    """A document of a tree, whose only member is the root element.

    Members that begin with ``@`` are attributes, ``#text`` is the text of an element, a list is several elements. None
    is an empty element or attribute, as in the JSON view. Objects without members are omitted.
    """
    root = _find_root({*tree})
    part = _build_element(root, tree[root], (root,))
    return b"".join(part.iterate_bytes())


def _find_root(names: set[str]) -> str:
    # XML has one root element, which the first step of every path names.
    if len(names) != 1:
        raise UsageError(
            NO_SUCH_FIELD,
            f"an XML message has one root element, not {len(names)}",
            hint="let all destinations start with the same step, such as /order",
        )
    return _check_name(names.pop())


def _build_element(name: str, value: Any, path: tuple[str, ...]) -> XmlPart:
    part = XmlPart(_check_name(name), {})
    if isinstance(value, list):
        raise ListRefused(path)
    if not isinstance(value, dict):
        _set_text(part, value)
        return part
    for below, inner in value.items():
        own = (*path, below)
        if inner == {} or (inner is None and below == TEXT_MEMBER):
            continue
        if isinstance(inner, list) and not below.startswith(("@", "#")):
            part.items += [_build_element(below, one, own) for one in inner]
        elif isinstance(inner, list):
            raise ListRefused(own)
        elif below == TEXT_MEMBER and not isinstance(inner, dict):
            _set_text(part, inner)
        elif below.startswith("@") and not isinstance(inner, dict):
            _set_attribute(part, _check_name(below[1:]), _xml_text(to_untyped_scalar(inner)))
        else:
            part.items.append(_build_element(below, inner, own))
    return part


def _set_text(part: XmlPart, value: Scalar) -> None:
    text = _xml_text(to_untyped_scalar(value))
    if text:
        part.items.append(escape_text(text).encode())


def select_fields(document_root: XmlPart, select_list: SelectList) -> None:
    """Remove the excluded parts; the root element stays."""
    rules = build_directives(select_list)
    include = True if rules.include is None else rules.include
    if not _select_part(document_root, rules.below.get(document_root.name), include):
        document_root.items.clear()


def _select_part(part: XmlPart, rules: PathDirective | None, include: bool) -> bool:
    """Reduce an element; return whether it stays."""
    # No directive at or below this element: it is dropped or kept completely. It is emptied, because the root element
    # always stays.
    if rules is None:
        if not include:
            _set_content(part, [])
            part.attributes, part.opening = {}, None
        return include
    include = include if rules.include is None else rules.include
    had = part.is_object
    for name in list(part.attributes):
        rule = rules.below.get("@" + name)
        if not (include if rule is None or rule.include is None else rule.include):
            del part.attributes[name]
            part.opening = None
    # Text, comments and white space belong to the element itself and share its decision.
    kept: list[XmlPart | bytes] = []
    for item in part.items:
        if isinstance(item, bytes):
            if include:
                kept.append(item)
        elif _select_part(item, rules.below.get(item.name), include):
            kept.append(item)
    part.items[:] = kept
    # An element that had members and lost them all stays only for a text of its own.
    return part.is_object or (include and (not had or not part.is_blank))


def _write_element(root: XmlPart, names: Sequence[str], value: SlotValue) -> None:
    if names[0] != root.name:
        raise UsageError(
            NO_SUCH_FIELD,
            f"/{'/'.join(names)} cannot be written into a message whose root element is {root.name}",
            hint=f"let the destination start with /{root.name}",
        )
    text = _xml_text(value)
    part = root
    # The last step of an attribute names no element, so the walk ends at the element that has it.
    for name in names[1:-1] if names[-1].startswith("@") else names[1:]:
        found = part.group_elements().get(name, [])
        # An array on the path is replaced by one element, because the path does not select any of its elements.
        if len(found) != 1:
            new = XmlPart(_check_name(name), {})
            # A value becomes an object: its text is removed.
            if not part.group_elements():
                _set_content(part, [])
            _replace_elements(part, {name: [new]})
            found = [new]
        part = found[0]
    if names[-1].startswith("@"):
        _set_attribute(part, _check_name(names[-1][1:]), text)
    else:
        _set_content(part, [escape_text(text).encode()] if text else [])


def _remove_element(root: XmlPart, names: Sequence[str]) -> None:
    parts = [root] if names[0] == root.name else []
    for name in names[1:-1]:
        # A removal applies to every element of an array on the path.
        parts = [below for part in parts for below in part.group_elements().get(name, [])]
    for part in parts:
        if names[-1].startswith("@"):
            if part.attributes.pop(names[-1][1:], None) is not None:
                part.opening = None
        elif len(names) > 1:
            _replace_elements(part, {names[-1]: []})
        else:
            _set_content(part, [])


def _xml_text(value: SlotValue) -> str:
    raw = to_text(value) or b""
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        raise InputError(UNWRITABLE_CODE, "a value with bytes that are not UTF-8 cannot be written as XML") from None
    # XML cannot represent these characters, not even as references.
    if _FORBIDDEN_CHARACTERS.search(text):
        raise InputError(UNWRITABLE_CODE, "a value with a control character cannot be written as XML")
    return text


def _check_name(name: str) -> str:
    # A path in brackets may contain any character; the written name must be valid in XML.
    if _NAME_PATTERN.fullmatch(name) is None:
        raise UsageError(NO_SUCH_FIELD, f"{name!r} cannot be the name of an XML element or attribute")
    return name


def _set_attribute(part: XmlPart, name: str, value: str) -> None:
    part.attributes[name] = value
    part.opening = None


def _set_content(part: XmlPart, items: list[bytes]) -> None:
    # The texts are removed with their content; new content is written and not read again.
    part.items = list(items)
    part.texts = []


def _replace_elements(part: XmlPart, news: dict[str, list[XmlPart]]) -> None:
    """Put new elements of each name in the place of the first old one, or at the end."""
    if not news:
        return
    items: list[XmlPart | bytes] = []
    written: set[str] = set()
    for item in part.items:
        if not isinstance(item, XmlPart) or item.name not in news:
            items.append(item)
        # The first old element marks the place; the other old ones of its name are removed.
        elif item.name not in written:
            written.add(item.name)
            items.extend(news[item.name])
    for name, new in news.items():
        if name not in written:
            items.extend(new)
    part.items = items
