"""Shared code of ``schema`` and ``stats``: the selection of records, and the rows of output."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, closing
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from sowctl.output.reports import as_dict
from sowctl.values.display import format_count

if TYPE_CHECKING:
    from sowctl.cli.context import Invocation
    from sowctl.cli.parsing.options import RecordChoice
    from sowctl.engine.instance import Instance
    from sowctl.engine.options import QueryOptions
    from sowctl.engine.topics.targets import Target
    from sowctl.engine.verbs.inspect.schema import PathFacts, SchemaReport
    from sowctl.engine.verbs.inspect.stats import StatsReport
    from sowctl.engine.verbs.query import QueryResult
    from sowctl.messages.base import MessageType


Ask = Callable[[], AbstractContextManager["QueryResult"]]
Look = Callable[[Ask, str, "MessageType"], Any]


def inspect_topics(
    invocation: Invocation, names: Sequence[str], wanted: RecordChoice, look: Look, *, paths: str | None = None
) -> list[Any]:
    """Call ``look`` for each topic with a function that opens its records, its name and its type.

    ``paths``, joined by commas, are fields that the records should have. If there are several topics, those without
    records are skipped, as in a query.
    """
    from sowctl.cli.lookup import apply_unknown, resolve_read_targets
    from sowctl.cli.parsing.option_values import parse_at_option
    from sowctl.engine.options import QueryOptions
    from sowctl.engine.topics.targets import select_readable_targets
    from sowctl.engine.verbs.query import report_unknown_fields, start_query
    from sowctl.engine.views.openers import has_known_state

    when = parse_at_option(invocation, wanted.at)
    with invocation.open_instance(*names, fix_names=wanted.fix_names) as instance:
        targets = resolve_read_targets(instance, names, wanted.message_type, literal=wanted.literal_topic)
        options = QueryOptions(filter=wanted.filter, at=when.resolve_time(instance), fresh=wanted.fresh)
        report_unknown_fields(instance, targets, apply_unknown(invocation, options, paths, strict=wanted.strict))
        # Every pass over the records has the same clock, so that no record expires between two passes.
        now = instance.now
        instance = replace(instance, clock=lambda: now)
        found = []
        for one in select_readable_targets(instance, targets, has_known_state):
            ask = partial(_open_query, start_query, instance, one, options)
            found.append(look(ask, *_find_name(instance, one)))
        return found


def _open_query(
    query: Callable[[Instance, Sequence[Target], QueryOptions], QueryResult],
    instance: Instance,
    target: Target,
    options: QueryOptions,
) -> AbstractContextManager[QueryResult]:
    return closing(query(instance, [target], options))


def _find_name(instance: Instance, target: Target) -> tuple[str, MessageType]:
    """Name and message type of a target; those of a bare file are read from it."""
    from sowctl.engine.sources.opener import open_source

    if target.topic is not None:
        return target.topic.label, instance.find_message_type(target.topic.message_type)
    with closing(open_source(instance, target, None)) as source:
        return source.topic, instance.find_message_type(source.message_type)


def note_coverage(invocation: Invocation, report: SchemaReport | StatsReport) -> None:
    """Print how many records were examined, and which were not included."""
    counted = format_count(report.records, "record")
    words = f"{report.topic}: {counted}"
    if report.looked_at != report.records:
        words = f"{report.topic}: a sample of {report.looked_at:,} of {counted}"
    invocation.note(words)
    if report.unreadable:
        missing = format_count(report.unreadable, "invalid message is", "invalid messages are")
        invocation.warn(f"{report.topic}: {missing} not included")


def build_path_row(report: SchemaReport, facts: PathFacts, *, brief: bool) -> dict[str, Any]:
    """One path of a schema; ``brief``: the columns that fit a line, for people."""
    if not brief:
        return {"topic": report.topic, "message_type": report.message_type, **as_dict(facts)}
    types = [name if len(facts.types) == 1 else f"{name} {count:,}" for name, count in facts.types.items()]
    if facts.items is not None and facts.items[1]:
        low, high = facts.items
        types.append(f"of {low:,} to {high:,}" if low != high else f"of {low:,}")
    return {
        "path": facts.path,
        "types": ", ".join(types),
        "null": facts.null + facts.empty,
        "missing": facts.missing,
        "distinct": facts.distinct if facts.distinct_error is None else f"~{facts.distinct}",
        "examples": ", ".join(map(_format_example, facts.examples)),
    }


def _format_example(value: object) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else str(value)
