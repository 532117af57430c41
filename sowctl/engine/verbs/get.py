"""get: records by key, without a filter and without a scan."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING

from sowctl.engine.records import RecordBatch, batch_of
from sowctl.engine.search.matcher import key_of, key_of_fields, keys_of
from sowctl.engine.sources.opening import open_source
from sowctl.engine.topics.targets import Target
from sowctl.errors import UsageError

if TYPE_CHECKING:
    from sowctl.engine.instance import Instance
    from sowctl.engine.sources.source import Source
    from sowctl.store.meta import Definition


def get(
    instance: Instance, target: Target, keys: Sequence[str], *, fields: bool = False, at: int | None = None
) -> tuple[RecordBatch, list[str]]:
    """The records of ``keys`` in the order asked for, and the texts of those that do not exist.

    A key is a SOW key (or the publisher's own key); with ``fields`` it is the text of the key field, several fields
    joined by commas. Raises UsageError for texts that cannot be keys, and what reading raises.
    """
    source = open_source(instance, target, at)
    with closing(source):
        if target.topic is not None and not fields:
            wanted = keys_of(keys, target.topic)
        else:
            wanted = [_key(source, target, text, fields) for text in keys]
        found = dict(zip(*source.lookup(wanted), strict=True))
        present = [key for key in wanted if key in found]
        missing = [text for text, key in zip(keys, wanted, strict=True) if key not in found]
        batch = batch_of(source.topic, instance.type_of(source.message_type), present, [found[key] for key in present])
    return batch, missing


def _key(source: Source, target: Target, text: str, fields: bool) -> bytes:
    of_logical = False
    if target.topic is not None:
        topic = target.topic
        mode, domain, count = topic.key_mode, topic.key_domain, len(topic.keys)
        if topic.pattern is not None:
            from sowctl.engine.sources.logical import domain_of

            domain = domain_of(topic)
    else:
        definition: Definition = source.definition
        mode, domain, count = definition.key_mode, definition.key_domain or "", len(definition.key_fields)  # type: ignore[assignment]
        of_logical = definition.key_domain == ""  # None: keys that no domain is part of, such as publishers' own
    if of_logical and (fields or mode == "user"):
        raise UsageError(
            "SOW-QRY-018",
            "the keys of this file belong to the logical topics of its records",
            hint="give SOW keys as query --meta shows them, or a configuration and the name of a logical topic",
        )
    if not fields:
        return key_of(text, mode)
    if mode != "fields":
        raise UsageError(
            "SOW-QRY-005", "this topic has no key fields", hint="give the keys themselves, without --fields"
        )
    return key_of_fields(text.split(",") if count > 1 else [text], domain, count)
