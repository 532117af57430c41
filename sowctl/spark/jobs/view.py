"""view: compute projections with grouping over one topic or a join, on Spark (``sowctl-pipeline-view(1)``).

The engine evaluates fields, join keys, groupings and aggregates. Spark shuffles the records of large sources by join
key, then the states of groups by group key.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from itertools import islice
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace
from xxhash import xxh3_64_hexdigest

from sowctl.config.derived_entries import ConflatedTopic, View
from sowctl.config.model import TopicConfig
from sowctl.engine.bulk.staging import hold_staging_area
from sowctl.engine.topics.derived_topics import build_derived_topic
from sowctl.engine.topics.targets import Target
from sowctl.engine.views import definition
from sowctl.engine.views.definition import Query
from sowctl.engine.views.openers import open_target
from sowctl.errors import MissingError, UsageError
from sowctl.spark.jobs.limits import JOB_LIMITS
from sowctl.spark.jobs.outputs.datasets import write_records
from sowctl.spark.jobs.outputs.output_spec import Output, Part
from sowctl.spark.jobs.outputs.storefile import write_store
from sowctl.spark.jobs.report import JobReport
from sowctl.spark.jobs.state import list_parts, read_one_state
from sowctl.spark.jobs.view_groups import FilePart, compute_groups
from sowctl.spark.jobs.visibility import FileVisibility, require_visibility
from sowctl.spark.pairfiles import write_pairs
from sowctl.store.limits import STORE_LIMITS
from sowctl.store.meta import Definition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sowctl.engine.instance import Instance
    from sowctl.remote.place import Place
    from sowctl.values.topicref import TopicRef


class AdHocView(Struct, frozen=True):
    """A view that is not in the configuration: over one topic, or over the topics that ``joins`` name."""

    topic: str | None
    projection: tuple[str, ...]
    grouping: tuple[str, ...]
    joins: tuple[str, ...] = ()
    filter: str | None = None
    message_type: str | None = None


def view(
    spark: SparkSession,
    instance: Instance,
    wanted: View | AdHocView,
    output: Output,
    *,
    staging_directory: Place | None = None,
    monotonic: Callable[[], float] = time.monotonic,
) -> JobReport:
    """Compute a view over the current records of its topics and write it to ``output``.

    Raises MissingError and UsageError for sources that are not topics or views, ExpressionError, InputError
    ``SOW-QRY-004`` for a record that cannot be read, and what reading raises.
    """
    started = monotonic()
    # Check before the computation, which may take long.
    output.check()
    query = build_query(instance, wanted)
    base = _base(instance, query)
    with hold_staging_area(instance, base, directory=staging_directory) as area:
        seen = require_visibility(spark, instance, area.place)
        parts = read_one_state(
            instance, lambda copied: _compute_parts(spark, instance, query, area.place, seen, copied=copied)
        )
        if output.kind == "sow":
            written = write_store(spark, instance, parts, output, _definition(instance, query), area.place)
        else:
            written = write_records(spark, instance, query.ref, parts, output)
    report = JobReport("view", tuple(source.name for source in query.sources), output.label)
    report.read, report.records, report.bytes = sum(part.read for part in parts), written.records, written.bytes
    report.partitions = written.partitions
    report.details |= {"format": output.kind, "view": query.name}
    report.seconds = monotonic() - started
    return report


def build_query(instance: Instance, wanted: View | AdHocView) -> Query:
    """Convert a view to a query, and resolve its sources. Raises UsageError ``SOW-SPK-066`` and ``SOW-SPK-069``, and
    MissingError ``SOW-ENG-012``."""
    from sowctl.engine.topics.targets import find_topic

    if isinstance(wanted, View):
        return definition.build_query(instance, wanted)
    if (wanted.topic is None) == (not wanted.joins):
        raise UsageError("SOW-SPK-066", "a view reads one topic or a join", hint="name one topic, or give --join")
    if wanted.topic is not None:
        topic = find_topic(instance, wanted.topic, wanted.message_type)
        if topic.logical is not None:
            raise UsageError(
                "SOW-SPK-069",
                f"{topic.label!r} is a logical topic of a Pattern, but views read whole topics",
                hint=f"name {topic.name!r}",
            )
        sources: tuple[TopicRef, ...] = (topic.ref,)
        name, message_type = topic.ref
    else:
        sources = _list_join_sources(instance, wanted)
        message_type = wanted.message_type or sources[0].message_type
        name = "+".join(source.name for source in sources)
    texts = wanted.joins, wanted.projection, wanted.grouping
    return Query(name, message_type, sources, *texts, wanted.filter, False, name)


def _list_join_sources(instance: Instance, wanted: AdHocView) -> tuple[TopicRef, ...]:
    from sowctl.engine.topics.targets import find_topic
    from sowctl.expressions.syntax.joins import parse_join

    sides = [side for text in wanted.joins for side in parse_join(text)]
    found = (find_topic(instance, side.topic, side.message_type or wanted.message_type) for side in sides)
    return tuple(dict.fromkeys(topic.ref for topic in found))


def _entry(instance: Instance, ref: TopicRef) -> TopicConfig | View | ConflatedTopic:
    name, message_type = ref
    found = instance.config.find_entries(name, message_type) if instance.config is not None else ()
    if not found:
        raise MissingError("SOW-ENG-012", f"topic {name!r} of type {message_type} does not exist", topic=name)
    entry = found[0]
    if not isinstance(entry, TopicConfig | View | ConflatedTopic):
        raise UsageError("SOW-SPK-067", f"{name!r} is neither a topic nor a view")
    return entry


def _base(instance: Instance, query: Query) -> TopicConfig:
    """Return a topic of the view; the staging directory is created next to its files."""
    entry = _entry(instance, query.sources[0])
    while isinstance(entry, ConflatedTopic):
        entry = _entry(instance, entry.source)
    return entry if isinstance(entry, TopicConfig) else _base(instance, build_query(instance, entry))


def _compute_parts(
    spark: SparkSession, instance: Instance, query: Query, directory: Place, seen: FileVisibility, *, copied: bool
) -> list[FilePart]:
    """Compute the view's records, in key order; views among its sources are computed first."""
    parts: list[Sequence[Part]] = []
    for source in query.sources:
        entry = _entry(instance, source)
        if isinstance(entry, View):
            # A view over a view: compute the inner view to files, which are read like those of a topic.
            inner = build_query(instance, entry)
            parts.append(_compute_parts(spark, instance, inner, directory, seen, copied=copied))
        elif isinstance(entry, ConflatedTopic):
            parts.append(_write_conflated(instance, entry, directory))
        else:
            parts.append(list_parts(spark, instance, entry, None, directory, seen, copied=copied))
    # The instance is pickled for the tasks; the function that receives notes may hold a terminal, which cannot be.
    plain = replace(instance, notify=_ignore)
    return compute_groups(spark, plain, query, parts, directory)


def _write_conflated(instance: Instance, entry: ConflatedTopic, directory: Place) -> list[FilePart]:
    """Write the current records of a conflated topic to files, on the driver, because they depend on the order of all
    updates."""
    assert instance.config is not None
    front = f"shown-{xxh3_64_hexdigest(f'{entry.message_type} {entry.name}'.encode())}"
    found: list[FilePart] = []
    with closing(open_target(instance, Target(topic=build_derived_topic(instance.config, entry)), None)) as source:
        batches = source.read_batches(STORE_LIMITS.read_batch_records)
        while some := list(islice(batches, max(1, JOB_LIMITS.records_per_part // STORE_LIMITS.read_batch_records))):
            place = directory / f"{front}-{len(found)}"
            count, _ = write_pairs(place, iter(some))
            found.append(FilePart(place, count))
    return found


def _definition(instance: Instance, query: Query) -> Definition:
    assert instance.config is not None
    return Definition(
        instance=instance.config.name,
        topic=query.name,
        message_type=query.message_type,
        key_mode="fields",
        key_fields=query.grouping,
        key_domain=query.key_domain,
    )


def _ignore(_: str) -> None:
    return
