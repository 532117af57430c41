"""What a TARGET means: a configured topic, a file, or a pattern over topic names (``sowctl(1)``)."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sowctl.config.matching import is_pattern, search_of
from sowctl.config.model import OtherEntry, TopicConfig
from sowctl.errors import MissingError, UsageError

if TYPE_CHECKING:
    from sowctl.engine.instance import Instance

_TYPED = re.compile(r"\[([^\]]+)\]\.\[([^\]]+)\]")


@dataclass(frozen=True, slots=True)
class Target:
    """What to read: a configured topic, or the bare path of a store."""

    topic: TopicConfig | None = None
    path: Path | None = None


def resolve(instance: Instance, text: str, message_type: str | None = None, *, literal: bool = False) -> list[Target]:
    """The targets that ``text`` names, in configuration order.

    An exact name wins; then an existing path with ``/`` or ``.sow``; then, unless ``literal``, a regular expression
    over the names. Raises UsageError ``SOW-ENG-030`` (ambiguous), MissingError ``SOW-ENG-012`` (nothing of that name).
    """
    name, message_type = split_target(text, message_type)
    exact = _exact(instance, name, message_type)
    if exact is not None:
        return [Target(topic=exact)]
    path = instance.working / text
    if ("/" in text or text.endswith(".sow")) and path.is_file():
        return [Target(path=path)]
    if text.endswith(".sow") and "/" in text:
        raise MissingError("SOW-ENG-013", "there is no such file", place=text)
    if not literal and is_pattern(name):
        matches = search_of(name)
        found = [
            Target(topic=topic)
            for topic in instance.topics
            if matches(topic.name) and message_type in (None, topic.message_type)
        ]
        if found:
            return found
        raise MissingError(
            "SOW-ENG-014",
            f"no topic matches the pattern {name!r}",
            hint="sowctl info lists the topics",
        )
    raise _missing(instance, name)


def find_topic(instance: Instance, text: str, message_type: str | None = None) -> TopicConfig:
    """The one SOW topic of this exact name. Raises as :func:`resolve` does."""
    name, message_type = split_target(text, message_type)
    found = _exact(instance, name, message_type)
    if found is None:
        raise _missing(instance, name)
    return found


def find_publishable(instance: Instance, text: str, message_type: str | None = None) -> TopicConfig:
    """The topic that a publish to this name goes to. Raises as :func:`find_topic` does."""
    return find_topic(instance, text, message_type)


def split_target(text: str, message_type: str | None = None) -> tuple[str, str | None]:
    """Name and message type of ``[type].[name]``; any other text is a name, of the type that was given besides."""
    match = _TYPED.fullmatch(text)
    return (match[2], match[1]) if match else (text, message_type)


def _exact(instance: Instance, name: str, message_type: str | None) -> TopicConfig | None:
    if instance.config is None:
        return None
    entries = instance.config.find(name, message_type)
    if len(entries) > 1:
        forms = ", ".join(f"[{entry.message_type}].[{entry.name}]" for entry in entries)
        raise UsageError(
            "SOW-ENG-030",
            f"{name!r} exists with several message types",
            hint=f"write one of {forms}, or add --message-type",
        )
    if not entries:
        return None
    entry = entries[0]
    if isinstance(entry, OtherEntry):
        raise UsageError("SOW-ENG-031", f"{name!r} is a {entry.kind}, not a topic with a store of its own")
    return entry


def _missing(instance: Instance, name: str) -> MissingError:
    if instance.config is None:
        return MissingError(
            "SOW-ENG-015",
            f"{name!r} is not a file, and there is no configuration",
            hint="give -c CONFIG or a .sow file",
        )
    log = instance.log
    if log is not None and any(topic.name == name for topic in log.topics):
        return MissingError(
            "SOW-ENG-016",
            f"topic {name!r} is only in the transaction log: it has no SOW",
            hint="sowctl journal dump shows its messages",
        )
    names = [topic.name for topic in instance.topics]
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.6)
    hint = f"did you mean {' or '.join(near)}?" if near else "sowctl info lists the topics"
    return MissingError("SOW-ENG-012", f"there is no topic {name!r} in this configuration", hint=hint, topic=name)
