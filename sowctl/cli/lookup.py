"""Names of the command line, looked up: which topics are meant."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sowctl.engine.topics.targets import Target, resolve
from sowctl.errors import UsageError
from sowctl.remote.place import placed

if TYPE_CHECKING:
    from sowctl.config.model import TopicConfig
    from sowctl.engine.instance import Instance


def topics(instance: Instance, names: Sequence[str], *, regex: bool = False) -> list[TopicConfig]:
    """The topics of these names, all where there are none; patterns only with ``regex``. Raises as ``resolve`` does.

    The name of a logical topic stands for the Pattern topic that has its records.
    """
    if not names:
        return list(instance.topics)
    found = [target for name in names for target in resolve(instance, name, literal=not regex)]
    # Several names may lead to one topic, which is worked on once.
    return list(dict.fromkeys(_topic(target).whole for target in found))


def one(instance: Instance, text: str, message_type: str | None) -> Target:
    """The one target of this name, to be read: a view, too.

    Raises UsageError ``SOW-CLI-023`` where a pattern matches several.
    """
    found = resolve(instance, text, message_type, derived=True)
    if len(found) > 1:
        names = ", ".join(target.topic.label for target in found if target.topic is not None)
        raise UsageError("SOW-CLI-023", f"{text!r} matches several topics: {names}", hint="name one of them")
    return found[0]


def archived(instance: Instance, archive: str | None, journal: str | None) -> Instance:
    """The instance with the archive that ``--archive`` names, where older files of its journal lie. Raises UsageError
    ``SOW-CLI-038`` where ``--journal`` names another journal, ConfigError ``SOW-ENG-020`` where there is no journal."""
    if archive is None:
        return instance
    if journal is not None:
        raise UsageError(
            "SOW-CLI-038",
            "--archive is part of the configured journal, and --journal names another one",
            hint="leave one of them out",
        )
    return instance.with_archive(placed(Path(), archive))


def _topic(target: Target) -> TopicConfig:
    if target.topic is None:
        raise UsageError("SOW-CLI-024", f"{target.path} is a file, not a topic", hint="name the topic")
    return target.topic
