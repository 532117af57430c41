"""get: records by key, without a filter and without a scan."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING

from sowctl.engine.records import RecordBatch, batch_of
from sowctl.engine.search.keytext import keys_meant
from sowctl.engine.topics.targets import Target
from sowctl.engine.views.opening import open_target

if TYPE_CHECKING:
    from sowctl.engine.instance import Instance


def get(
    instance: Instance, target: Target, texts: Sequence[str], *, fields: bool = False, at: int | None = None
) -> tuple[RecordBatch, list[str]]:
    """The records of keys in the order asked for, and those of the ``texts`` that name none.

    A text is a SOW key (or the publisher's own key); where there is no record of that key, the text of the key field,
    several fields joined by commas. With ``fields`` it is the latter alone. Raises as
    :func:`~sowctl.engine.search.keytext.keys_meant`, and what reading raises.
    """
    with closing(open_target(instance, target, at)) as source:
        meant = keys_meant(texts, target, source.definition, fields=fields)
        found = dict(zip(*source.lookup([key for keys in meant for key in keys]), strict=True))
        present: list[bytes] = []
        missing: list[str] = []
        for text, keys in zip(texts, meant, strict=True):
            key = next((key for key in keys if key in found), None)
            if key is None:
                missing.append(text)
            else:
                present.append(key)
        kind = instance.type_of(source.message_type)
        return batch_of(source.topic, kind, present, [found[key] for key in present]), missing
