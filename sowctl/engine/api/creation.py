"""New instances: a directory with a first configuration, composed from topics and their keys (``sowctl.create``)."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, TypedDict

from sowctl.config.default_config import CONFIG_NAMES, find_config_file, list_config_files
from sowctl.config.initial_config import Answers, InitialTopic, choose_instance_name, compose_config
from sowctl.engine.api.arguments import convert_interval
from sowctl.errors import ConfigError, RefusedError
from sowctl.output_file import open_whole_file

if TYPE_CHECKING:
    from sowctl.engine.api.arguments import Interval
    from sowctl.engine.api.instance import InstanceHandle
    from sowctl.seam import Seam


class TopicSettings(TypedDict, total=False):
    """The settings of a new topic.

    ``key``: the path of its key field, or several; without it, publishers choose the keys. ``message_type``: default
    json. ``expiration``: the lifetime of its records. ``history``: the time for which versions of records are kept; a
    topic can have only one of the two.
    """

    key: str | Sequence[str] | None
    message_type: str
    expiration: Interval | None
    history: Interval | None


NewTopic: TypeAlias = "str | Sequence[str] | TopicSettings | None"
"""A new topic: its key field, several key fields, or its settings; None: publishers choose the keys."""


def write_first_config(
    directory: Path,
    topics: Mapping[str, NewTopic],
    *,
    name: str | None,
    journal: str | os.PathLike[str] | None,
    exist_ok: bool,
    seam: Seam,
) -> tuple[Path, bool]:
    """Write ``sowctl.xml`` to a directory, which is created if missing; return its path, and True if it is new.

    Raises RefusedError ``SOW-CLI-035`` if the directory has a configuration, unless ``exist_ok``; UsageError
    ``SOW-CLI-004`` if it has several, and ``SOW-CFG-060`` to ``SOW-CFG-066`` and TypeError for invalid topics.
    """
    if not isinstance(topics, Mapping):
        words = "topics must be a dict of names and key fields, such as {'orders': '/orderId'}"
        raise TypeError(f"{words}, not {type(topics).__name__}")
    made = tuple(_build_topic(topic, settings) for topic, settings in topics.items())
    log = None if journal is None else os.fspath(journal)
    text = compose_config(Answers(name or choose_instance_name(directory), made, log))
    if found := list_config_files(directory):
        if exist_ok:
            return find_config_file(directory), False
        raise RefusedError(
            "SOW-CLI-035",
            f"the directory has a configuration: {', '.join(path.name for path in found)}",
            place=str(directory),
            hint="open it with sowctl.open(), or pass exist_ok=True",
        )
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / CONFIG_NAMES[0]
    with open_whole_file(path, force=False, seam=seam, hint="another program has just created it: open it") as stream:
        stream.write(text.encode())
    return path, True


def require_topics(instance: InstanceHandle, topics: Mapping[str, NewTopic]) -> None:
    """Raise MissingError (exit 10) for a topic that an existing instance lacks, with its message type."""
    for name, settings in topics.items():
        instance.topic(name, settings.get("message_type") if isinstance(settings, Mapping) else None)


def remove_config(path: Path, error: ConfigError) -> None:
    """Remove a new, invalid configuration, and the place and excerpt in it from ``error``."""
    path.unlink(missing_ok=True)
    error.place, error.excerpt = None, None


def _build_topic(name: str, settings: NewTopic) -> InitialTopic:
    if not isinstance(name, str):
        raise TypeError(f"the name of a topic must be a str, not {type(name).__name__}")
    if not isinstance(settings, Mapping):
        return InitialTopic(name, keys=_build_keys(name, settings))
    for word in settings:
        if word not in TopicSettings.__annotations__:
            from sowctl.config.suggestions import find_nearest

            near = find_nearest(str(word), TopicSettings.__annotations__)
            raise TypeError(f"topic {name!r} has no setting {word!r}" + (f"; did you mean {near!r}?" if near else ""))
    message_type = settings.get("message_type", "json")
    if not isinstance(message_type, str):
        raise TypeError(f"message_type of topic {name!r} must be a str, not {type(message_type).__name__}")
    return InitialTopic(
        name,
        message_type,
        _build_keys(name, settings.get("key")),
        _format_interval("expiration", settings.get("expiration")),
        _format_interval("history", settings.get("history")),
    )


def _build_keys(name: str, key: str | Sequence[str] | None) -> tuple[str, ...]:
    keys = (key,) if isinstance(key, str) else key or ()
    if not isinstance(keys, Sequence) or isinstance(keys, bytes) or not all(isinstance(one, str) for one in keys):
        raise TypeError(f"key of topic {name!r} must be a str or a list of them, such as '/id', not {key!r}")
    return tuple(keys)


def _format_interval(name: str, interval: Interval | None) -> str | None:
    """Return an interval in the notation of a configuration, rounded to microseconds if it is a number."""
    seconds = convert_interval(name, interval)
    if seconds is None or isinstance(interval, str):
        return interval if isinstance(interval, str) else None
    micros = round(seconds * 1_000_000)
    return f"{micros // 1_000_000}s" if micros % 1_000_000 == 0 else f"{micros}us"
