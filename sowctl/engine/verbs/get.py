"""get: reads records by key, without a filter and without a scan."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from itertools import islice
from typing import TYPE_CHECKING

from sowctl.engine.records import RecordBatch, build_record_batch
from sowctl.engine.search.keytext import resolve_key_texts
from sowctl.engine.topics.targets import Target
from sowctl.engine.views.openers import open_target

if TYPE_CHECKING:
    from sowctl.engine.instance import Instance
    from sowctl.engine.sources.source import Source

KEYS_TOGETHER = 1000
"""Keys per lookup."""


def get_records(
    instance: Instance, target: Target, texts: Sequence[str], *, fields: bool = False, at: int | None = None
) -> tuple[RecordBatch, list[str]]:
    """Return the records of keys in the requested order, and those ``texts`` that name no record.

    A text is a SOW key (or the publisher's own key); without a record of that key, it is the text of the key field,
    several fields joined by commas. With ``fields``, it is only the latter. Raises as
    :func:`~sowctl.engine.search.keytext.resolve_key_texts`, and what reading raises.
    """
    with closing(open_target(instance, target, at)) as source:
        return _look_up(instance, source, target, texts, fields=fields)


def iterate_key_records(
    instance: Instance,
    target: Target,
    texts: Iterable[str],
    *,
    fields: bool = False,
    at: int | None = None,
    note_missing: Callable[[str], None],
) -> Iterator[RecordBatch]:
    """Yield the records of any number of keys as :func:`get_records`, all from one state.

    ``note_missing`` is called with each text that names no record.
    """
    with closing(open_target(instance, target, at)) as source:
        waiting = iter(texts)
        while some := list(islice(waiting, KEYS_TOGETHER)):
            batch, missing = _look_up(instance, source, target, some, fields=fields)
            for text in missing:
                note_missing(text)
            yield batch


def _look_up(
    instance: Instance, source: Source, target: Target, texts: Sequence[str], *, fields: bool
) -> tuple[RecordBatch, list[str]]:
    meant = resolve_key_texts(texts, target, source.definition, fields=fields)
    found = dict(zip(*source.find_records([key for keys in meant for key in keys]), strict=True))
    present: list[bytes] = []
    missing: list[str] = []
    for text, keys in zip(texts, meant, strict=True):
        key = next((key for key in keys if key in found), None)
        if key is None:
            missing.append(text)
        else:
            present.append(key)
    kind = instance.find_message_type(source.message_type)
    return build_record_batch(source.topic, kind, present, [found[key] for key in present]), missing
