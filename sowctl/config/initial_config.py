"""Compose a first configuration from a few answers, for ``config init``. It validates and lints clean.

Ruled by ``sow-config(5)``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from sowctl.config.new_elements import (
    DEFAULT_FILE_NAME,
    Child,
    NewElement,
    build_elements,
    build_history,
    build_journal_topic,
    check_text,
    format_element,
)
from sowctl.config.topic_patterns import is_pattern
from sowctl.errors import UsageError
from sowctl.messages.types import FIELDLESS_TYPES, MESSAGE_TYPES
from sowctl.messages.xml.tree import escape_text
from sowctl.values.paths import parse_path, split_list
from sowctl.values.topicref import TopicRef

_COMMON_TYPES = ("json", "nvfix", "fix", "xml", "bson", "msgpack", "bflat", "binary")
PREDEFINED_TYPES = (*_COMMON_TYPES, *(name for name in MESSAGE_TYPES if name not in _COMMON_TYPES))
"""Message types that need no definition, the common ones first."""
_TOPIC_PATTERN = re.compile(
    r"(?:\[(?P<type>[^\[\]]+)\]\.\[(?P<typed>.+?)\]|(?P<name>.+?))(?:[=:](?P<keys>[/\[].*))?", re.DOTALL
)
_INDENT = "  "


class InitialTopic(Struct, frozen=True):
    """A topic to define; without ``keys`` publishers send a key with each message.

    ``expiration`` and ``history`` are intervals such as ``10m``: the lifetime of records, and the retention of their
    versions; a topic may have only one of the two.
    """

    name: str
    message_type: str = "json"
    keys: tuple[str, ...] = ()
    expiration: str | None = None
    history: str | None = None

    @property
    def ref(self) -> TopicRef:
        """Name and message type."""
        return TopicRef(self.name, self.message_type)


class Answers(Struct, frozen=True):
    """The content of a first configuration; ``journal`` is the directory of the journals, None for none."""

    name: str
    topics: tuple[InitialTopic, ...]
    journal: str | None = "./journals"


def split_topic(text: str, message_type: str = "json") -> InitialTopic:
    """Parse a topic as written in an option: ``NAME``, ``NAME=/key,/key``, ``NAME:/key,/key`` or
    ``[type].[name]=/key``.

    ``message_type`` is the default type. Only the form is checked. Raises UsageError ``SOW-CFG-060``.
    """
    match = _TOPIC_PATTERN.fullmatch(text.strip())
    if match is None:
        raise UsageError("SOW-CFG-060", f"{text!r} is not NAME or NAME=/key,/key", hint="write it like orders=/orderId")
    keys = tuple(split_list(match["keys"])) if match["keys"] else ()
    return InitialTopic(match["typed"] or match["name"], match["type"] or message_type, keys)


def refuse_missing_slash(text: str, topic: InitialTopic) -> None:
    """Raise UsageError ``SOW-CFG-060`` if the text of a new ``topic`` looks like ``NAME=key``; in brackets a name may
    have an equals sign."""
    name, sign, key = topic.name.partition("=")
    if sign and name and key and not topic.keys and not text.strip().startswith("["):
        hint = f"write {name}=/{key} for the key field /{key}, or [{topic.message_type}].[{topic.name}] for the name"
        raise UsageError("SOW-CFG-060", f"{text!r} has a key field without a slash", hint=hint)


def parse_topic(text: str, message_type: str = "json", keys: Sequence[str] = ()) -> InitialTopic:
    """Parse a topic as :func:`split_topic` does and check it; ``keys`` apply to a text without keys.

    Raises UsageError ``SOW-CFG-060``, and as :func:`check_topic` does.
    """
    topic = split_topic(text, message_type)
    refuse_missing_slash(text, topic)
    return check_topic(topic if topic.keys else replace(topic, keys=tuple(keys)))


def parse_topics(texts: Sequence[str], message_type: str, keys: Sequence[str]) -> tuple[InitialTopic, ...]:
    """Parse the topics of options, in their order; ``keys`` apply to topics without keys.

    Raises UsageError ``SOW-CFG-065`` if there are several ``keys`` and several topics without keys, or ``keys``
    although all topics have their own, and as :func:`parse_topic` does.
    """
    without = [text for text in texts if not split_topic(text).keys]
    if keys and texts and not without:
        raise UsageError(
            "SOW-CFG-065",
            f"--key applies to topics without keys, and all topics have keys: {', '.join(texts)}",
            hint="omit --key, or add the key to a topic, as in --topic lines=/orderId,/line",
        )
    if len(set(keys)) > 1 and len(without) > 1:
        raise UsageError(
            "SOW-CFG-065",
            f"the keys {', '.join(keys)} are ambiguous: --key applies to all topics without keys, "
            f"and these are {', '.join(without)}",
            hint=f"give the keys with each topic: --topic {without[0]}={keys[0]} --topic {without[1]}={keys[1]}",
        )
    return tuple(parse_topic(text, message_type, keys) for text in texts)


def check_topic(topic: InitialTopic) -> InitialTopic:
    """Return the topic. Raises UsageError ``SOW-CFG-060`` to ``062`` or ``066``, or that of a path."""
    check_text("topic", topic.name)
    if topic.message_type not in PREDEFINED_TYPES:
        raise UsageError(
            "SOW-CFG-061",
            f"{topic.message_type!r} is not a built-in message type",
            hint=f"use one of {', '.join(PREDEFINED_TYPES)}",
        )
    if topic.keys and topic.message_type in FIELDLESS_TYPES:
        words = f"messages of type {topic.message_type} have no fields"
        raise UsageError("SOW-CFG-062", words, hint="remove the keys")
    if topic.expiration is not None and topic.history is not None:
        words = f"topic {topic.name!r} has both an expiration and a history"
        raise UsageError(
            "SOW-CFG-066", words, hint="versions of records that expire are not kept: remove one of the two"
        )
    for key in topic.keys:
        parse_path(key)
    return topic


def check_name(text: str) -> str:
    """Return a valid name of an instance. Raises UsageError ``SOW-CFG-060``."""
    if any(character in "/\\$~" for character in check_text("name", text)):
        raise UsageError(
            "SOW-CFG-060", f"invalid name {text!r}", hint="it is part of file names: / \\ $ ~ are not allowed"
        )
    return text


def choose_instance_name(directory: Path) -> str:
    """The name of an instance in ``directory``, derived from the name of the directory."""
    name = directory.absolute().name
    found = "".join(letter if letter.isascii() and (letter.isalnum() or letter in "_-.") else "-" for letter in name)
    return found.strip("-.") or "instance"


def compose_config(answers: Answers) -> str:
    """The text of the configuration. Raises UsageError as :func:`check_topic` does, or for a duplicate topic."""
    check_name(answers.name)
    refs = [topic.ref for topic in map(check_topic, answers.topics)]
    twice = next((ref for ref in refs if refs.count(ref) > 1), None)
    if twice is not None:
        raise UsageError("SOW-CFG-063", f"topic {twice.name!r} of type {twice.message_type} is named twice")
    if not refs:
        raise UsageError(
            "SOW-CFG-064", "a topic is required", hint="name one with --topic, for example orders=/orderId"
        )
    return "\n".join((*_format_head(answers), *_format_sow(answers.topics), *_format_log(answers), "</AMPSConfig>", ""))


def _format_head(answers: Answers) -> Iterator[str]:
    # Suppress advice that does not apply to this file: it must lint clean.
    rules = ["B010" if answers.journal is not None else "B050"]
    if any(is_pattern(topic.name) for topic in answers.topics):
        rules.append("B020")
    if any("/" in topic.name[1:] for topic in answers.topics):
        rules.append("B019")
    if " " in answers.name:
        rules.append("B022")
    if any(topic.history is not None for topic in answers.topics):
        rules.append("B053")
    yield '<?xml version="1.0" encoding="UTF-8"?>'
    yield "<!-- A configuration for sowctl; sow-config(5) describes every element. Relative paths count from here. -->"
    yield f"<!-- sowctl: ignore {', '.join(rules)} because no server runs on it, and names are as asked for -->"
    yield "<AMPSConfig>"
    yield "  <!-- Part of the names of journal files: one instance per name and directory. -->"
    yield f"  <Name>{escape_text(answers.name)}</Name>"


def _format_sow(topics: Iterable[InitialTopic]) -> Iterator[str]:
    yield f"{_INDENT}<SOW>"
    for topic in topics:
        yield from format_element(_build_topic(topic), _INDENT * 2, _INDENT)
    yield f"{_INDENT}</SOW>"


def _build_topic(topic: InitialTopic) -> NewElement:
    """The Topic of SOW, with comments for its reader."""
    keys: tuple[Child, ...] = tuple(NewElement("Key", key) for key in topic.keys)
    if not keys:
        words = "No Key: publishers send a SOW key with each message, and the last per key is kept."
    elif len(keys) == 1:
        words = "The last message per value of this field is kept."
    else:
        words = "The last message per combination of these values is kept."
    lifetime: tuple[Child, ...] = build_elements("Expiration", topic.expiration)
    if topic.history is not None:
        lifetime = (build_history(topic.history),)
    elif not lifetime:
        advice = (
            "Records that die of age: <Expiration>7d</Expiration>. Earlier versions kept:",
            "<History><Window>1d</Window><Granularity>0s</Granularity></History>, which excludes",
            "Expiration.",
        )
        lifetime = ("\n".join(advice),)
    children: tuple[Child, ...] = (
        NewElement("Name", topic.name),
        NewElement("MessageType", topic.message_type),
        words,
        *keys,
        "%n stands for the topic's name and type.",
        NewElement("FileName", DEFAULT_FILE_NAME),
        *lifetime,
    )
    return NewElement("Topic", children=children)


def _format_log(answers: Answers) -> Iterator[str]:
    if answers.journal is None:
        return
    yield "  <!-- What is published to these topics is journalled first; stores can be rebuilt from the journals. -->"
    yield "  <TransactionLog>"
    yield f"    <JournalDirectory>{escape_text(check_text('journal', answers.journal))}</JournalDirectory>"
    for topic in answers.topics:
        yield from format_element(build_journal_topic(topic.name, topic.message_type), _INDENT * 2, _INDENT)
    yield "  </TransactionLog>"
