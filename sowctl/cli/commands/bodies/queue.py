"""Shared code of commands on queues: handles from operands and standard input, descriptions of outcomes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from itertools import islice
from typing import TYPE_CHECKING, Any, BinaryIO

from msgspec.structs import replace

from sowctl.cli.commands.bodies.input_lines import read_lines_by_pause
from sowctl.cli.context import Invocation
from sowctl.cli.io.json_array import JsonArray
from sowctl.errors import UsageError
from sowctl.identity.bookmarks import Bookmark
from sowctl.output.options import TableFit
from sowctl.values.display import format_age, format_count, format_rate
from sowctl.values.jsonline import format_json_line
from sowctl.values.times import format_time

if TYPE_CHECKING:
    from sowctl.engine.queues.handles import MessageHandle, Outcome
    from sowctl.engine.queues.queue import OpenQueue
    from sowctl.engine.queues.reports import QueueInfo
    from sowctl.output.facts import Fact

MAX_BATCH_LINES = 1000
"""Maximum number of handles in one change: all of them share a sync."""
MAX_LINE_BYTES = 256 << 20
"""Maximum bytes of a line: the lines of queue lease contain the whole message."""
_GOOD_OUTCOMES = ("done", "deferred", "max_cancels", "max_deliveries")
_OUTCOME_TEXTS = {
    "stale": "is no longer leased with this token",
    "unknown": "is not in the queue",
    "leased": "is leased to another client",
    "not leased": "is not leased",
}
_COUNT_WORDS = {"max_cancels": "dead after MaxCancels", "max_deliveries": "dead after MaxDeliveries"}


def read_handles(invocation: Invocation, queue: OpenQueue, texts: Sequence[str]) -> Iterator[list[MessageHandle]]:
    """Yield batches of the messages that operands name; ``-`` means the lines of standard input, as they arrive.

    Raises UsageError ``SOW-QUE-011`` for an invalid handle, after those before it.
    """
    from sowctl.engine.verbs.queue import parse_handle

    owner = queue.instance.publisher_id
    for part in _split_operands(invocation, texts):
        handles: list[MessageHandle] = []
        for text in part:
            try:
                handles.append(parse_handle(text, owner))
            except UsageError:
                # The handles before an invalid one are still processed.
                if handles:
                    yield handles
                raise
        if handles:
            yield handles


def _split_operands(invocation: Invocation, texts: Sequence[str]) -> Iterator[list[str]]:
    named: list[str] = []
    for text in texts:
        if text != "-":
            named.append(text)
            continue
        if named:
            yield named
            named = []
        for lines in _read_lines(invocation.streams.stdin):
            yield [line.decode("utf-8", "replace") for line in lines if line.strip()]
    if named:
        yield named


def _read_lines(stream: BinaryIO) -> Iterator[list[bytes]]:
    try:
        source = stream.fileno()
    except OSError:
        # A caller's own stream, or a closed standard input.
        while lines := list(islice(stream, MAX_BATCH_LINES)):
            yield lines
        return
    try:
        yield from read_lines_by_pause(source, MAX_BATCH_LINES, MAX_LINE_BYTES)
    except ValueError as problem:
        raise UsageError(
            "SOW-QUE-011", f"{problem} does not identify a message", hint="give one bookmark per line"
        ) from None


def apply_batches(
    invocation: Invocation,
    batches: Iterable[list[MessageHandle]],
    act: Callable[[list[MessageHandle]], Sequence[Outcome]],
    done: str,
    *,
    as_json: bool = False,
) -> int:
    """Call ``act`` for each batch and print the outcome of each message; status 1 if one was not ``done``.

    ``as_json``: an array with an object per message is written to standard output, batch by batch.
    """
    counts: Counter[str] = Counter()
    with JsonArray(invocation.streams.stdout) if as_json else nullcontext() as array:
        for batch in batches:
            outcomes = act(batch)
            if array is not None:
                array.write_elements([*map(_encode_outcome, batch, outcomes)])
            for handle, outcome in zip(batch, outcomes, strict=True):
                counts[outcome] += 1
                if outcome not in _GOOD_OUTCOMES:
                    invocation.warn(f"{Bookmark(*handle.name)} {_OUTCOME_TEXTS[outcome]}", outcome=outcome)
    parts = [f"{counts['done']:,} {done}"]
    parts += [f"{counts[name]:,} {_COUNT_WORDS.get(name, name)}" for name in sorted(counts) if name != "done"]
    invocation.note(", ".join(parts))
    return 1 if any(name not in _GOOD_OUTCOMES for name in counts) else 0


def _encode_outcome(handle: MessageHandle, outcome: Outcome) -> bytes:
    return format_json_line({"bookmark": str(Bookmark(*handle.name)), "outcome": outcome}).encode()


def delay_handles(handles: Sequence[MessageHandle], delay_us: int) -> list[MessageHandle]:
    """The same messages, to return no earlier than after this delay."""
    return [replace(handle, delay_us=delay_us) for handle in handles]


def build_info_row(info: QueueInfo, *, brief: bool) -> dict[str, Any]:
    """All facts of a queue; ``brief``: the columns that fit a line, for people."""
    from sowctl.output.reports import as_dict

    depth = info.depth
    if brief:
        return {
            "queue": depth.queue,
            "type": depth.message_type,
            "underlying": info.underlying,
            "ready": depth.ready,
            "leased": depth.leased,
            "delayed": depth.delayed,
            "blocked": depth.blocked,
            "dead": depth.dead,
            "age": None if info.age_seconds is None else f"{info.age_seconds:.0f}s",
            "in/s": info.entered_rate,
            "acks/s": info.acknowledged_rate,
            "workers": sum(holder.kind == "worker" for holder in info.holders),
        }
    row: dict[str, Any] = as_dict(info)
    row = row.pop("depth") | row
    for name in ("created", "oldest"):
        row[name] = format_time(row[name]) if row[name] else None
    for holder in row["holders"]:
        holder |= {name: format_time(holder[name]) for name in ("started", "seen")}
    return row


QUEUES_FIT = TableFit(spare=("type", "underlying", "acks", "in", "workers", "age"), figures=("age", "in", "acks"))
"""Columns of a queue for people that a narrow terminal may drop."""


def build_person_row(info: QueueInfo) -> dict[str, Any]:
    """The brief row of a queue for a terminal: ages and rates in words, without states that have no messages."""
    row = build_info_row(info, brief=True)
    row["age"] = None if info.age_seconds is None else format_age(info.age_seconds)
    del row["in/s"], row["acks/s"]
    row["in"] = format_rate(info.entered_rate) if info.entered_rate else None
    row["acks"] = format_rate(info.acknowledged_rate) if info.acknowledged_rate else None
    for name in ("delayed", "blocked", "dead"):
        row[name] = row[name] or None
    return row


def build_person_facts(info: QueueInfo) -> Iterator[Fact]:
    """The facts of a queue for a terminal: formatted values, without absent ones."""
    from sowctl.cli.io.rows import shorten_path
    from sowctl.output.facts import Fact

    depth = info.depth
    yield Fact("queue", depth.queue)
    yield Fact("message type", depth.message_type)
    states = ", ".join(f"{getattr(depth, name):,} {name}" for name in ("ready", "leased", "delayed", "blocked"))
    beyond = "" if depth.whole else "; TargetQueueDepth keeps others in the journal"
    yield Fact("pending", f"{depth.pending:,}: {states}{beyond}")
    yield Fact("dead", f"{depth.dead:,}")
    if info.oldest_txid is not None:
        ages = () if info.age_seconds is None else (f"{format_age(info.age_seconds)} old",)
        times = () if info.oldest is None else (_format_second(info.oldest),)
        yield Fact("oldest", ", ".join((f"txid {info.oldest_txid}", *ages, *times)))
    for name in ("entered", "delivered", "acknowledged"):
        rate = getattr(info, f"{name}_rate")
        yield Fact(name, f"{getattr(info, name):,}" + (f", {format_rate(rate)}" if rate else ""))
    for name in ("cancelled", "returned", "requeued"):
        yield Fact(name, f"{getattr(info, name):,}")
    for name in ("expired", "blocked_by", "waiting_for"):
        if value := getattr(info, name):
            yield Fact(name.replace("_", " "), _format_value(value))
    for name in ("kind", "underlying", "publish_target", "semantics", "leasing", "fairness", "recovery_point"):
        yield Fact(name.replace("_", " "), getattr(info, name))
    yield Fact("file", shorten_path(info.file))
    if info.created:
        yield Fact("created", _format_second(info.created))
    if info.elements:
        yield Fact("elements", _format_value(info.elements))
    for holder in info.holders:
        parts = [f"{holder.in_flight:,} in flight"]
        parts += [
            f"{getattr(holder, name):,} {name}" for name in ("delivered", "acknowledged", "cancelled", "returned")
        ]
        parts += [f"{format_rate(holder.acknowledged_rate)} acknowledged"] if holder.acknowledged_rate else []
        parts += [f"since {_format_second(holder.started)}", f"seen {_format_second(holder.seen)}"]
        if holder.kind == "worker":
            parts += [format_count(holder.slots, "slot"), f"process {holder.pid} on {holder.host}"]
        yield Fact(f"{holder.kind} {holder.name}", ", ".join(parts))


def _format_second(at: int) -> str:
    return format_time(at - at % 1_000_000).partition(".")[0] + "Z"


def iterate_facts(row: dict[str, Any]) -> Iterator[dict[str, str]]:
    """The facts of a queue line by line, with a line for each holder of leases."""
    for fact, value in row.items():
        if fact != "holders":
            yield {"fact": fact, "value": _format_value(value)}
    for holder in row["holders"]:
        parts = [f"{holder['in_flight']:,} in flight"]
        parts += [f"{holder[name]:,} {name}" for name in ("delivered", "acknowledged", "cancelled", "returned")]
        parts += [f"{holder['acknowledged_rate']} acks/s", f"since {holder['started']}", f"seen {holder['seen']}"]
        if holder["kind"] == "worker":
            parts += [format_count(holder["slots"], "slot"), f"process {holder['pid']} on {holder['host']}"]
        yield {"fact": f"{holder['kind']} {holder['name']}", "value": ", ".join(parts)}


def _format_value(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {part}" for name, part in value.items())
    return "" if value is None else str(value)
