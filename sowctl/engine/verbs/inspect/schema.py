"""schema: the paths that messages have, with types, what is NULL or missing, how many values there are, and examples.

No schema is declared anywhere: it is what the messages show. Memory is bounded whatever they hold: values are counted
exactly as long as they fit, and so many paths are told apart (:mod:`sowctl.engine.profile`).
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
"""The type of messages that have no fields."""


class PathFacts(DescribedStruct, frozen=True):
    """One path. ``field`` is what filters call it, None for the whole message.

    ``types`` counts values by type; ``null`` are among them, ``empty`` texts, too. ``missing`` objects could have this
    member and do not. ``distinct`` values other than NULL, objects and arrays; ``distinct_error`` is the standard error
    of an estimate, None where it is exact. ``items``: the fewest and the most elements of an array.
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
    """The paths of one topic's messages. ``looked_at`` of ``records`` were read; ``unreadable`` ones among them are no
    messages of their type. ``left_out``: how often a path was met that was one too many. ``root`` is the whole."""

    topic: str
    message_type: str
    records: int
    looked_at: int
    unreadable: int
    left_out: int
    paths: list[PathFacts]
    root: PathProfile

    def to_json_schema(self) -> dict[str, Any]:
        """The JSON Schema (draft 2020-12) that all messages match."""
        from sowctl.engine.profile.jsonschema import build_json_schema

        return build_json_schema(self.root, self.topic)


def profile_schema(
    batches: Iterable[RecordBatch], topic: str, kind: MessageType, share: SampleShare | None = None
) -> SchemaReport:
    """Read the records of one ``topic``, all or a ``share``. Raises what reading them raises."""
    share = share or SampleShare()
    shapes = TopicProfile(valued=True)
    sampled = PayloadSample(batches, share)
    # Trees are made by the thousand and hold no cycles: looking for some takes about 7 % of the time.
    with pause_collection():
        for payloads in sampled:
            if kind.filterable:
                shapes.add_trees(parse_trees(payloads, kind.view))
            else:
                shapes.root.types[BYTES_TYPE] += len(payloads)
    # The whole message is a line only where it is something else than an object.
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
    """The fields of one topic's messages as Spark declares them (``sowctl-spark(7)``, "MESSAGES"), all or a ``share``.

    Raises what reading them raises, and LimitError ``SOW-SPK-083``.
    """
    from sowctl.arrow.inference import Inference

    look = Inference(repeatable=kind.repeatable)
    for payloads in PayloadSample(batches, share or SampleShare()):
        if kind.filterable:
            look.add(map(kind.members_view, payloads))
    # What a STRUCT of no name has between its brackets is what Spark takes for a schema.
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
