"""New elements for a configuration, as values: topics, views and queues, and their XML.

``config init`` (:mod:`sowctl.config.initial_config`) and ``config add`` (:mod:`sowctl.config.additions`) write the same
elements. Ruled by ``sow-config(5)``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct

from sowctl.config.topic_patterns import is_pattern
from sowctl.errors import UsageError
from sowctl.messages.xml.tree import escape_text

DEFAULT_FILE_NAME = "./sow/%n.sow"
_META_PATTERN = re.compile(r"([.^$*+?()\[\]{}|\\])")


class NewElement(Struct, frozen=True):
    """An element with a text or with children; a child that is a text is a comment."""

    tag: str
    text: str = ""
    children: tuple[NewElement | str, ...] = ()


Child: TypeAlias = NewElement | str


def check_text(what: str, text: str) -> str:
    """A text that is valid in XML. Raises UsageError ``SOW-CFG-060``."""
    # XML does not allow control characters, and ``${`` would be read as a variable.
    if not text.strip() or not text.isprintable() or "${" in text:
        raise UsageError("SOW-CFG-060", f"invalid {what} {text!r}", hint="use printable characters")
    return text


def build_elements(tag: str, *values: str | None) -> tuple[NewElement, ...]:
    """One element for each value that is not None. Raises UsageError ``SOW-CFG-060`` as :func:`check_text` does."""
    return tuple(NewElement(tag, check_text(tag, value)) for value in values if value is not None)


def build_history(window: str, granularity: str = "0s") -> NewElement:
    """A History. Raises UsageError ``SOW-CFG-060``."""
    children = (*build_elements("Window", window), *build_elements("Granularity", granularity))
    return NewElement("History", children=children)


def build_topic(
    name: str,
    message_type: str,
    *,
    keys: Sequence[str],
    file_name: str | None,
    expiration: str | None = None,
    history: NewElement | None = None,
    indexes: Sequence[str] = (),
) -> NewElement:
    """A Topic of SOW; without ``file_name`` it is transient. Raises UsageError ``SOW-CFG-060``."""
    children = (
        *build_elements("Name", name),
        *build_elements("MessageType", message_type),
        *build_elements("Key", *keys),
        *build_elements("FileName", file_name),
        *build_elements("Durability", "transient" if file_name is None else None),
        *build_elements("Expiration", expiration),
        *build_elements("Index", *indexes),
        *(() if history is None else (history,)),
    )
    return NewElement("Topic", children=children)


def build_view(
    name: str,
    message_type: str,
    *,
    source: str | None,
    joins: Sequence[str],
    projection: Sequence[str],
    grouping: Sequence[str],
    filter: str | None = None,
) -> NewElement:
    """A View over ``source`` or over ``joins``. Raises UsageError ``SOW-CFG-060``."""
    underlying = build_elements("UnderlyingTopic", source)
    if joins:
        underlying = (NewElement("UnderlyingTopic", children=build_elements("Join", *joins)),)
    children = (
        *build_elements("Name", name),
        *build_elements("MessageType", message_type),
        *underlying,
        NewElement("Projection", children=build_elements("Field", *projection)),
        NewElement("Grouping", children=build_elements("Field", *grouping)),
        *build_elements("Filter", filter),
    )
    return NewElement("View", children=children)


def build_queue(name: str, message_type: str, values: Mapping[str, str | None]) -> NewElement:
    """A Queue with ``values`` of its other elements by their names. Raises UsageError ``SOW-CFG-060``."""
    others = tuple(child for tag, value in values.items() for child in build_elements(tag, value))
    children = (*build_elements("Name", name), *build_elements("MessageType", message_type), *others)
    return NewElement("Queue", children=children)


def build_journal_topic(name: str, message_type: str) -> NewElement:
    """The Topic of a transaction log that matches only this topic."""
    # In the transaction log a name with special characters is a pattern: anchored and escaped, it matches only this
    # topic.
    anchored = f"^{_META_PATTERN.sub(_escape_character, name)}$" if is_pattern(name) else name
    return NewElement("Topic", children=(NewElement("Name", anchored), NewElement("MessageType", message_type)))


def _escape_character(match: re.Match[str]) -> str:
    return "\\" + match[0]


def format_element(element: NewElement, indent: str, unit: str) -> Iterator[str]:
    """Yield the lines of an element at ``indent``; each level of children is indented by ``unit``."""
    if not element.children:
        yield f"{indent}<{element.tag}>{escape_text(element.text)}</{element.tag}>"
        return
    yield f"{indent}<{element.tag}>"
    yield from format_children(element.children, indent + unit, unit)
    yield f"{indent}</{element.tag}>"


def format_children(children: Sequence[Child], indent: str, unit: str) -> Iterator[str]:
    """Yield the lines of sibling elements and comments."""
    for child in children:
        if isinstance(child, NewElement):
            yield from format_element(child, indent, unit)
        else:
            yield f"{indent}<!-- {f'{chr(10)}{indent}     '.join(child.splitlines())} -->"
