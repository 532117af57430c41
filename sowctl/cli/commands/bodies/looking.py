"""What ``schema`` and ``stats`` share: which records are looked at, and the rows that are shown of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, closing
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from sowctl.errors import UsageError
from sowctl.output.reports import as_dict

if TYPE_CHECKING:
    from sowctl.cli.context import Invocation
    from sowctl.engine.instance import Instance
    from sowctl.engine.options import QueryOptions
    from sowctl.engine.profile.sample import SampleShare
    from sowctl.engine.topics.targets import Target
    from sowctl.engine.verbs.looking.schema import PathFacts, SchemaReport
    from sowctl.engine.verbs.looking.stats import StatsReport
    from sowctl.engine.verbs.query import QueryResult
    from sowctl.messages.base import MessageType


class RecordOptions(Struct, frozen=True):
    """Which records are looked at, as given on the command line; ``paths``, joined by commas, are fields of them."""

    target: str
    filter: str | None = None
    at: str | None = None
    message_type: str | None = None
    literal: bool = False
    fresh: bool = False
    fix_names: bool = False
    paths: str | None = None
    strict: bool = False


Ask = Callable[[], AbstractContextManager["QueryResult"]]
Look = Callable[[Ask, str, "MessageType"], Any]


def looked_at(invocation: Invocation, wanted: RecordOptions, look: Look) -> list[Any]:
    """What ``look`` makes of each topic that is meant: it is given what asks for its records, its name and its type.

    Of several topics those without records yet are left out, as in a query.
    """
    from sowctl.cli.words.queryoptions import with_unknown
    from sowctl.cli.words.when import moment
    from sowctl.engine.options import QueryOptions
    from sowctl.engine.topics.targets import resolve, with_records
    from sowctl.engine.verbs.query import query, tell_unknown
    from sowctl.engine.views.opening import can_be_told

    when = moment(invocation, wanted.at)
    with invocation.open_instance(wanted.target, fix_names=wanted.fix_names) as instance:
        targets = resolve(instance, wanted.target, wanted.message_type, literal=wanted.literal, derived=True)
        options = QueryOptions(filter=wanted.filter, at=when.of(instance), fresh=wanted.fresh)
        tell_unknown(instance, targets, with_unknown(invocation, options, wanted.paths, strict=wanted.strict))
        # Every pass over the records sees the same clock: none expires between two of them.
        now = instance.now
        instance = replace(instance, clock=lambda: now)
        found = []
        for target in with_records(instance, targets, can_be_told):
            ask = partial(_asked, query, instance, target, options)
            found.append(look(ask, *_named(instance, target)))
        return found


def _asked(
    query: Callable[[Instance, Sequence[Target], QueryOptions], QueryResult],
    instance: Instance,
    target: Target,
    options: QueryOptions,
) -> AbstractContextManager[QueryResult]:
    return closing(query(instance, [target], options))


def _named(instance: Instance, target: Target) -> tuple[str, MessageType]:
    """Name and message type of a target; those of a bare file stand in it."""
    from sowctl.engine.sources.opening import open_source

    if target.topic is not None:
        return target.topic.label, instance.type_of(target.topic.message_type)
    with closing(open_source(instance, target, None)) as source:
        return source.topic, instance.type_of(source.message_type)


def share_of(text: str | None) -> SampleShare:
    """What ``--sample`` means: all records without it. Raises UsageError ``SOW-STA-002``."""
    from sowctl.engine.profile.sample import SampleShare
    from sowctl.values.units import whole_number

    if text is None:
        return SampleShare()
    part = text.strip().removesuffix("%")
    try:
        if part != text.strip():
            share = float(part) / 100
            if 0 < share <= 1:
                return SampleShare(part=share)
        elif most := whole_number(part):
            return SampleShare(most=most)
    except ValueError:
        pass
    raise UsageError(
        "SOW-STA-002", f"--sample {text!r} is neither a number nor a percentage", hint="use for example 10000 or 5%"
    )


def tell(invocation: Invocation, report: SchemaReport | StatsReport) -> None:
    """Say how many records were looked at, and what is not in the answer."""
    counted = f"{report.records:,} records" if report.records != 1 else "1 record"
    words = f"{report.topic}: {counted}"
    if report.looked_at != report.records:
        words = f"{report.topic}: a sample of {report.looked_at:,} of {counted}"
    invocation.note(words)
    if report.unreadable:
        invocation.warn(f"{report.topic}: {report.unreadable:,} invalid messages are not included")


def path_row(report: SchemaReport, facts: PathFacts, *, brief: bool) -> dict[str, Any]:
    """One path of a schema; ``brief``: what fits a line, for people."""
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
        "examples": ", ".join(map(_example, facts.examples)),
    }


def _example(value: object) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else str(value)
