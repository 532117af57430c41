"""Names and keys of the command line, looked up: which topics are meant, and which records.

A key is tried as a SOW key (or the publisher's own key) first and then as the text of the key fields, so that
``get orders 10417`` finds the order 10417; a SOW key that happens to be another record's key text is one in 2^64.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sowctl.engine.topics.targets import Target, resolve
from sowctl.engine.verbs.get import get
from sowctl.errors import UsageError

if TYPE_CHECKING:
    from sowctl.config.model import TopicConfig
    from sowctl.engine.instance import Instance
    from sowctl.engine.records import RecordBatch, StoredRecord


def topics(instance: Instance, names: Sequence[str], *, regex: bool = False) -> list[TopicConfig]:
    """The topics of these names, all where there are none; patterns only with ``regex``. Raises as ``resolve`` does.

    The name of a logical topic stands for the Pattern topic that has its records.
    """
    if not names:
        return list(instance.topics)
    found = [target for name in names for target in resolve(instance, name, literal=not regex)]
    return list(dict.fromkeys(_topic(target).whole for target in found))


def one(instance: Instance, text: str, message_type: str | None) -> Target:
    """The one target of this name. Raises UsageError ``SOW-CLI-023`` where a pattern matches several."""
    found = resolve(instance, text, message_type)
    if len(found) > 1:
        names = ", ".join(target.topic.label for target in found if target.topic is not None)
        raise UsageError("SOW-CLI-023", f"{text!r} matches several topics: {names}", hint="name one of them")
    return found[0]


def records(
    instance: Instance, target: Target, keys: Sequence[str], at: int | None, *, fields: bool
) -> tuple[RecordBatch, list[str]]:
    """The records of ``keys`` in the order asked for, and the keys that have none; ``fields``: key field texts only."""
    if fields:
        return get(instance, target, keys, fields=True, at=at)
    numbers = list(keys)
    try:
        batch, missing = get(instance, target, numbers, at=at)
    except UsageError:
        numbers = [key for key in keys if key.isdecimal() and int(key) < 1 << 64]
        batch, missing = get(instance, target, numbers, at=at)
    else:
        if not missing or (target.topic is not None and target.topic.key_mode != "fields"):
            return batch, missing
    found = _by_key(numbers, batch, missing)
    rest = [key for key in keys if key not in found]
    try:
        by_fields, missing = get(instance, target, rest, fields=True, at=at)
    except UsageError:
        return batch, rest
    found |= _by_key(rest, by_fields, missing)
    return batch.holding([found[key] for key in keys if key in found]), missing


def _by_key(keys: Sequence[str], batch: RecordBatch, missing: list[str]) -> dict[str, StoredRecord]:
    return dict(zip((key for key in keys if key not in missing), batch.records, strict=True))


def _topic(target: Target) -> TopicConfig:
    if target.topic is None:
        raise UsageError("SOW-CLI-024", f"{target.path} is a file, not a topic", hint="name the topic")
    return target.topic
