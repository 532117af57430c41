"""schema: the paths of messages, with types, NULL and missing values, number of distinct values, and examples.

No schema is declared anywhere; it is derived from the messages. Memory is bounded for any content: values are counted
exactly while they fit, and the number of distinct paths is limited (:mod:`sowctl.engine.profile`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from sowctl.engine.profile.path_profile import PathProfile, TopicProfile
from sowctl.engine.profile.sample import PayloadSample, SampleShare
from sowctl.engine.profile.trees import parse_trees
from sowctl.engine.views.gc_pause import pause_collection
from sowctl.structs import DescribedStruct

if TYPE_CHECKING:
    from sowctl.engine.records import RecordBatch
    from sowctl.messages.base import MessageType

BYTES_TYPE = "bytes"
"""The type of messages without fields."""


class PathFacts(DescribedStruct, frozen=True):
    """One path. ``field`` is its name in filters, None for the whole message.

    ``types`` counts values by type, including ``null`` ones and ``empty`` texts. ``missing``: number of objects that
    could have this member but do not. ``distinct`` values other than NULL, objects and arrays; ``distinct_error`` is
    the standard error of an estimate, None if the count is exact. ``items``: minimum and maximum number of elements of
    an array.
    """

    path: str
    field: str | None
    types: dict[str, int]
    null: int
    empty: int
    missing: int
    distinct: int
    distinct_error: float | None
    examples: list[Any]
    items: tuple[int, int] | None


class SchemaReport(DescribedStruct, frozen=True):
    """The paths of one topic's messages. ``looked_at`` of ``records`` were read; ``unreadable`` of them are invalid in
    their message type. ``left_out``: number of occurrences of paths beyond the limit. ``root`` is the whole message."""

    topic: str
    message_type: str
    records: int
    looked_at: int
    unreadable: int
    left_out: int
    paths: list[PathFacts]
    root: PathProfile

    def to_json_schema(self) -> dict[str, Any]:
        """Return the JSON Schema (draft 2020-12) that all messages match."""
        from sowctl.engine.profile.jsonschema import build_json_schema

        return build_json_schema(self.root, self.topic)


def profile_schema(
    batches: Iterable[RecordBatch], topic: str, kind: MessageType, share: SampleShare | None = None
) -> SchemaReport:
    """Profile the records of one ``topic``, all or a ``share``. Raises what reading them raises."""
    share = share or SampleShare()
    shapes = TopicProfile(valued=True)
    sampled = PayloadSample(batches, share)
    # Thousands of trees are built without reference cycles: collecting cycles takes about 7 % of the time.
    with pause_collection():
        for payloads in sampled:
            if kind.filterable:
                shapes.add_trees(parse_trees(payloads, kind.view))
            else:
                shapes.root.types[BYTES_TYPE] += len(payloads)
    # The whole message has a line only if it is not an object.
    found = [
        shape for shape in shapes.root.iterate_paths() if shape.parent is not None or set(shape.types) - {"object"}
    ]
    return SchemaReport(
        topic,
        kind.name,
        sampled.seen,
        sampled.taken,
        shapes.unreadable,
        shapes.left_out,
        list(map(_build_path_facts, found)),
        shapes.root,
    )


def format_spark_schema(batches: Iterable[RecordBatch], kind: MessageType, share: SampleShare | None = None) -> str:
    """Return the fields of one topic's messages as a Spark schema (``sowctl-spark(7)``, "MESSAGES"), from all or a
    ``share``.

    Raises what reading them raises, and LimitError ``SOW-SPK-083``.
    """
    from sowctl.arrow.inference import Inference

    look = Inference(repeatable=kind.repeatable)
    for payloads in PayloadSample(batches, share or SampleShare()):
        if kind.filterable:
            look.add(map(kind.members_view, payloads))
    # Spark parses the content of a STRUCT's brackets as a schema.
    return look.build_ddl().removeprefix("STRUCT<").removesuffix(">")


def _build_path_facts(shape: PathProfile) -> PathFacts:
    assert shape.tally is not None
    distinct = shape.tally.count_distinct()
    return PathFacts(
        shape.path,
        shape.field,
        dict(shape.types),
        shape.types["null"],
        shape.empty,
        shape.missing_count,
        distinct.count,
        distinct.error or None,
        shape.tally.examples,
        shape.lengths,
    )
