"""Laws of views: a cache that was caught up after every step shows what computing everything anew shows.

Random definitions (groupings, filters, aggregates, chained joins, a view over a view) over random histories: publishes,
deltas, deletions, lifetimes that end, clocks that are set back, stores that are built anew. Whole records are compared:
keys, times and payloads.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch
from xml.sax.saxutils import escape

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sowctl.config.model import OtherEntry
from sowctl.engine.api import InstanceHandle
from sowctl.engine.options import PublishOptions
from sowctl.engine.search.figures import QUERY_LIMITS
from sowctl.engine.sources.source import Source
from sowctl.engine.topics.targets import Target, find_topic
from sowctl.engine.views.instant import run_at_instant
from sowctl.engine.views.limits import VIEW_LIMITS
from sowctl.engine.views.openers import open_target
from sowctl.engine.views.view import open_computed
from sowctl.errors import MissingError
from sowctl.expressions.columns.limits import COLUMN_LIMITS
from sowctl.messages.json.limits import JSON_LIMITS
from tests.support.examples import examples
from tests.support.instances import Lab, config_xml, topic_xml

TOPICS = topic_xml("A", "<Expiration>20s</Expiration>") + topic_xml("B") + topic_xml("C")
AGGREGATES = (
    "SUM({v}) AS /sum", "AVG({v}) AS /avg", "COUNT({v}) AS /count", "MIN({v}) AS /min", "MAX({v}) AS /max",
    "COUNT_DISTINCT({v}) AS /kinds", "UNIQUE({v}) AS /unique", "ANY({v}) AS /any", "STDDEV_POP({v}) AS /deviation",
    "GROUP_CONCAT({v}) AS /all", "SUM(IF({v} > 1, 1, 0)) + COUNT({v}) AS /mixed", "{v} AS /last",
)  # fmt: skip
ALONE = (*AGGREGATES, "LAST_UPDATED() AS /at")


Step = tuple[Any, ...]


def view_xml(name: str, source: str, fields: list[str], grouping: list[str], filter: str | None, nulls: bool) -> str:
    texts = "".join(f"<Field>{escape(field)}</Field>" for field in fields)
    groups = "".join(f"<Field>{escape(field)}</Field>" for field in grouping)
    more = f"<Filter>{escape(filter)}</Filter>" if filter else ""
    more += "<JoinNullEquivalency>enabled</JoinNullEquivalency>" if nulls else ""
    return (
        f"<View><Name>{name}</Name><MessageType>json</MessageType><UnderlyingTopic>{source}</UnderlyingTopic>"
        f"<Projection>{texts}</Projection><Grouping>{groups}</Grouping>{more}</View>"
    )


@st.composite
def single(draw: st.DrawFn, name: str = "view", source: str = "A") -> str:
    fields = draw(st.lists(st.sampled_from(ALONE), min_size=1, max_size=4, unique=True))
    grouping = draw(st.lists(st.sampled_from(["/g", "/h", "/o/p"]), min_size=1, max_size=2, unique=True))
    condition = draw(st.sampled_from([None, "/v > 1", "/g IS NOT NULL", "/h = 'x' OR /v < 2"]))
    shown = [f"{path} AS /k{number}" for number, path in enumerate(grouping)]
    return view_xml(name, source, shown + [field.format(v="/v") for field in fields], grouping, condition, False)


@st.composite
def joined(draw: st.DrawFn) -> str:
    fields = draw(st.lists(st.sampled_from(AGGREGATES), min_size=1, max_size=3, unique=True))
    of = draw(st.sampled_from(["[A]./v", "[B]./v", "[C]./v"]))
    joins = [f"[A]./{draw(st.sampled_from('gh'))} = [B]./{draw(st.sampled_from('gh'))}"]
    if draw(st.booleans()):
        joins.append("[A]./v = [B]./v")
    joins.append(draw(st.sampled_from(["[B]./h = [C]./h", "[A]./g = [C]./g", "[B]./v = [C]./h"])))
    if draw(st.booleans()):
        joins.append("[A]./h = [C]./v")
    grouping = draw(st.lists(st.sampled_from(["[A]./g", "[B]./h", "[C]./g", "[A]./id"]), min_size=1, unique=True))
    shown = [f"{path} AS /k{number}" for number, path in enumerate(grouping)]
    texts = "".join(f"<Join>{join}</Join>" for join in joins)
    return view_xml(
        "view", texts, shown + [field.format(v=of) for field in fields], grouping, None, draw(st.booleans())
    )


OVER = view_xml(
    "view", "<Join>[inner]./k0 = [B]./g</Join>", ["[inner]./k0", "COUNT([B]./v) AS /n"], ["[inner]./k0"], None, False
)
over = single("inner").map(lambda inner: inner + OVER)
VALUE = st.one_of(st.none(), st.integers(-3, 3), st.sampled_from(["x", "", "2", "1.50", 1.5, 2.0, 1e308, -1e308, True]))
LINK = st.sampled_from(["x", "y", "2", 2, None])
BODY = st.fixed_dictionaries({}, optional={"g": LINK, "h": LINK, "v": VALUE, "o": st.fixed_dictionaries({"p": VALUE})})
MESSAGE = st.tuples(st.integers(1, 6), BODY)
NAME = st.sampled_from("AABC")
STEP = st.one_of(
    st.tuples(st.just("publish"), NAME, st.lists(MESSAGE, min_size=1, max_size=5)),
    st.tuples(st.just("publish"), NAME, st.lists(MESSAGE, min_size=1, max_size=5)),
    st.tuples(st.just("delta"), NAME, st.lists(MESSAGE, min_size=1, max_size=3)),
    st.tuples(st.just("delete"), NAME, st.integers(1, 6)),
    st.tuples(st.just("clock"), st.sampled_from([1, 6, 25, -3])),
    st.tuples(st.just("expire")),
    st.tuples(st.just("rebuild"), st.sampled_from("ABC")),
)  # fmt: skip


def done(lab: Lab, step: Step) -> None:
    what, *rest = step
    if what in ("publish", "delta"):
        name, messages = rest
        payloads = [json.dumps({"id": number} | body).encode() for number, body in messages]
        lab.open().topic(name).publish(payloads, PublishOptions(delta=what == "delta"))
    elif what == "delete":
        with suppress(MissingError):
            lab.open().topic(rest[0]).delete(filter=f"/id = {rest[1]}")
    elif what == "clock":
        lab.clock.tick(rest[0])
    elif what == "expire":
        with suppress(MissingError):
            lab.open().topic("A").expire()
    else:
        lab.forget(rest[0])


def cached(instance: InstanceHandle, name: str) -> list[tuple[bytes, bytes]]:
    topic = find_topic(instance, name, derived=True)
    with closing(open_target(instance, Target(topic=topic), None)) as source:
        assert source.stored_source is not None
        return [pair for keys, values in source.read_batches(100) for pair in zip(keys, values, strict=True)]


def anew(instance: InstanceHandle, name: str) -> list[tuple[bytes, bytes]]:
    assert instance.config is not None
    (entry,) = instance.config.find_entries(name)
    assert isinstance(entry, OtherEntry)

    def pairs(source: Source) -> list[tuple[bytes, bytes]]:
        with closing(source):
            return [pair for keys, values in source.read_batches(100) for pair in zip(keys, values, strict=True)]

    with patch.object(VIEW_LIMITS, "min_column_records", 1 << 60):
        return run_at_instant(instance, entry, None, open_computed, lambda moment: pairs(open_computed(moment, entry)))


Figures = tuple[int, int, int, int, int]
FIGURES = st.tuples(
    # Columns are kept, or all is computed by rows.
    st.sampled_from([0, 0, 0, 1 << 60]),
    # All groups, the affected ones, or a choice; all is written anew, never, or where many rows are concerned.
    st.sampled_from([0, 2, 1 << 60]),
    st.sampled_from([0, 0, 2, 1 << 60]),
    # Changes kept beside the files: none, a few, all.
    st.sampled_from([0, 2, 1 << 60]),
    st.sampled_from([1, 2, 100]),
)


@contextmanager
def figures(chosen: Figures, together: int) -> Iterator[None]:
    columns, affected, stale, kept, part = chosen
    with ExitStack() as patches:
        patches.enter_context(
            patch.multiple(
                VIEW_LIMITS,
                min_column_records=columns,
                max_changed_divisor=0,
                max_affected_divisor=affected,
                max_stale_divisor=stale,
                min_kept_changes=kept,
                max_kept_divisor=1 << 60,
                column_part_records=part,
            )
        )
        # Three records at a time: columns go on from one batch of records to the next, and are cut between two.
        patches.enter_context(patch.multiple(VIEW_LIMITS, read_batch_records=3))
        patches.enter_context(patch.object(QUERY_LIMITS, "group_batch_records", 3))
        # They are grouped as they come, or many together; messages are read by their shapes, however few they are.
        patches.enter_context(patch.object(COLUMN_LIMITS, "waiting_messages_per_group", together))
        patches.enter_context(patch.object(JSON_LIMITS, "min_template_messages", 0))
        yield


@settings(max_examples=examples(100), suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(
    xml=st.one_of(single(), joined(), joined(), over),
    first=st.fixed_dictionaries({name: st.lists(MESSAGE, min_size=2, max_size=8) for name in "ABC"}),
    steps=st.lists(STEP, min_size=4, max_size=14),
    chosen=FIGURES,
    together=st.sampled_from([0, 2, 32]),
    logged=st.sampled_from([("A", "B", "C"), ("A",), ("B", "C")]),
)
def test_a_cache_caught_up_shows_what_computing_anew_shows(
    xml: str,
    first: dict[str, list[tuple[int, dict[str, Any]]]],
    steps: list[Step],
    chosen: Figures,
    together: int,
    logged: tuple[str, ...],
) -> None:
    with tempfile.TemporaryDirectory() as place, figures(chosen, together):
        lab = Lab(Path(place) / "lab", config_xml(TOPICS + xml, logged))
        for step in [*(("publish", name, messages) for name, messages in first.items()), *steps]:
            if step[0] == "rebuild" and step[1] not in logged:
                continue
            done(lab, step)
            instance = lab.open()
            for name in ("inner", "view"):
                if f"<Name>{name}</Name>" in xml:
                    assert cached(instance, name) == anew(instance, name), step
