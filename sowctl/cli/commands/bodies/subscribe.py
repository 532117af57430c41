"""Loop of ``sowctl subscribe`` and ``sowctl query --follow``: events out, control lines in."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from sowctl.cli.commands.bodies.input_lines import MAX_LINE_BYTES, InputReader, LineAssembler
from sowctl.cli.context import Invocation
from sowctl.cli.streams import is_terminal
from sowctl.engine.options import SubscribeOptions
from sowctl.engine.search.filter_notes import note_filter
from sowctl.engine.subscriptions.events import Delivery, MarkerEvent
from sowctl.engine.topics.targets import (
    NewTopicResolver,
    build_new_topic_resolver,
    resolve_followed_topics,
    unite_followed_topics,
)
from sowctl.engine.verbs.subscribe import subscribe_topics
from sowctl.errors import MissingError, SowError, UsageError
from sowctl.output.events import EventLines, PersonLines

if TYPE_CHECKING:
    from sowctl.cli.commands.bodies.places import PlaceTracker
    from sowctl.cli.parsing.place_options import PlaceOptions
    from sowctl.config.model import TopicConfig
    from sowctl.engine.instance import Instance
    from sowctl.engine.options import QueryOptions
    from sowctl.engine.verbs.subscribe import Subscription


MAX_PENDING_LINES = 1000
LAST_PLACE_STORE, LAST_PLACE_CLIENT = "sowctl.bookmarks", "sowctl"
"""The bookmark store of ``--since-last``, beside the configuration, and the client of its positions."""
"""Control lines that are kept until the subscription waits; further ones stay where they are."""


class EventPrinter:
    """One run. ``controlled``: lines of standard input say how it goes on. ``places``: its place is kept in a store.

    ``format``: text, lines for a person, the default on a terminal; ndjson, an object a line; raw, payloads.
    ``several``: of more than one topic."""

    def __init__(
        self,
        invocation: Invocation,
        instance: Instance,
        *,
        format: str | None,
        controlled: bool,
        several: bool = False,
        places: PlaceTracker | None = None,
    ) -> None:
        streams = invocation.streams
        self._invocation = invocation
        self._instance = instance
        self._out = streams.stdout
        on_terminal = is_terminal(streams.stdout)
        self._lines: EventLines | PersonLines = EventLines(data_only=format == "raw", terminal=on_terminal)
        # Who says how it goes on has to know the events as they are.
        for_person = on_terminal and not controlled and (places is None or not places.acknowledged)
        if format == "text" or (format is None and for_person):
            self._lines = PersonLines(streams.measure_columns(), several=several)
        self._controlled = controlled
        self._places = places
        self._listens = controlled or (places is not None and places.acknowledged)
        self._heard_lines = LineAssembler()
        self._hearing: InputReader | None = None
        self._later: list[bytes] = []

    def run(
        self, topics: Sequence[TopicConfig], options: SubscribeOptions, joining: NewTopicResolver | None = None
    ) -> None:
        """Print events until the subscription ends; ``joining``: what it means of topics that come later."""
        streams = self._invocation.streams
        # Of a process of its own the output may be a pipe, whose reader may go away while nothing is written.
        own = self._invocation.own_process
        output = self._out.fileno() if own else None
        self._hearing = InputReader(streams.stdin.fileno()) if self._listens and own else None
        inputs = [] if self._hearing is None else [self._hearing.number]
        begun = subscribe_topics(
            self._instance, topics, options, inputs=inputs, output=output, direct=True, joining=joining
        )
        with begun as subscription:
            if self._listens and not own:
                self._write_deliveries(subscription.ready(), subscription)
                while given := streams.stdin.read(MAX_LINE_BYTES):
                    self._apply_controls(subscription, given)
            self._write_deliveries(subscription.ready(), subscription)
            # What the records were read from is not needed any more; a store that is replaced can go.
            self._instance.close()
            while True:
                self._write_deliveries(subscription.ready(), subscription)
                if subscription.finished:
                    break
                if self._later:
                    # They have come while others were done.
                    self._apply_controls(subscription, b"")
                    continue
                ready = subscription.wait()
                if self._hearing is not None and self._hearing.number in ready:
                    data = self._hearing.read()
                    if data is None:
                        # Nobody tells anything any more; the subscription goes on as it is.
                        subscription.forget_input(self._hearing.number)
                    self._apply_controls(subscription, b"\n" if data is None else data)
            self._await_acknowledgements(subscription)

    def _write_deliveries(self, deliveries: Iterable[Delivery], subscription: Subscription) -> None:
        lines, places = self._lines, self._places
        for delivery in deliveries:
            fresh = delivery if places is None else places.drop_acknowledged(delivery)
            self._out.write(lines.format_sign(fresh) if isinstance(fresh, MarkerEvent) else lines.format_events(fresh))
            if places is not None:
                places.note_written(fresh)
                # Flushed before it is recorded: the stored position must not be ahead of the output.
                self._out.flush()
                places.note_flushed()
            if self._hearing is not None and len(self._later) < MAX_PENDING_LINES:
                # What is acknowledged in the course of a long replay moves the place on already.
                self._take_lines(self._hearing.read_available())
        # Before every wait: what there is has arrived before the next message comes.
        self._out.flush()
        if places is not None:
            places.note_idle(subscription)

    def _await_acknowledgements(self, subscription: Subscription) -> None:
        """Wait for what the consumer has not acknowledged yet, until it has or its end is closed."""
        hearing, places = self._hearing, self._places
        if hearing is not None and places is not None:
            while places.has_unacknowledged and (data := hearing.read()) is not None:
                self._apply_controls(subscription, data)

    def _take_lines(self, data: bytes) -> None:
        """Take complete lines that acknowledge; others are kept until the subscription waits."""
        places, lines = self._places, self._heard_lines
        cut = lines.cut
        for line in lines.take_lines(data):
            # Control lines are JSON objects, and bookmarks begin with a digit.
            if places is None or not places.acknowledged or line.lstrip().startswith(b"{"):
                self._later.append(line)
                continue
            try:
                places.acknowledge(line)
            except SowError as error:
                self._warn_error(error)
        if lines.cut != cut:
            hint = "write control lines and bookmarks one per line"
            self._warn_error(
                UsageError("SOW-FOL-027", f"skipped a line of more than {MAX_LINE_BYTES:,} bytes", hint=hint)
            )

    def _apply_controls(self, subscription: Subscription, data: bytes) -> None:
        """Run the commands of complete lines; one that fails is reported, and the subscription continues."""
        from sowctl.engine.subscriptions.control import parse_control

        self._take_lines(data)
        lines, self._later = self._later, []
        for line in lines:
            try:
                self._write_deliveries(
                    subscription.control(parse_control(line), self._find_topics, self._find_joining), subscription
                )
            except SowError as error:
                self._warn_error(error)

    def _warn_error(self, error: SowError) -> None:
        """Say what is wrong with a line. Raises the error where it is about something else."""
        if error.exit_status != 2:
            raise error
        self._invocation.warn(error.message, code=error.code, place=error.place, hint=error.hint)

    def _find_joining(self, target: str) -> NewTopicResolver | None:
        return build_new_topic_resolver(self._instance, target)

    def _find_topics(self, target: str) -> Sequence[TopicConfig]:
        try:
            return resolve_followed_topics(self._instance, target)
        except MissingError as error:
            # Said of a line while others go on, not of the command.
            raise UsageError(error.code, error.message, place=error.place, hint=error.hint) from None


class FollowedTopics(Struct, frozen=True):
    """The topics of a subscription as given. ``strict``: a named field that no record has is an error."""

    names: Sequence[str]
    message_type: str | None = None
    literal: bool = False
    strict: bool = False
    fix_names: bool = False


def follow_topics(
    invocation: Invocation,
    followed: FollowedTopics,
    asked: SubscribeOptions,
    place: PlaceOptions,
    *,
    format: str | None,
    controlled: bool = False,
) -> None:
    """Print the events of a subscription until it ends, and keep its position where ``place`` says so."""
    from sowctl.cli.commands.bodies.places import hold_place
    from sowctl.cli.lookup import apply_unknown
    from sowctl.engine.options import QueryOptions
    from sowctl.engine.topics.patterns import has_records
    from sowctl.engine.topics.targets import Target
    from sowctl.engine.verbs.query import report_unknown_fields

    place = _apply_since_last(invocation, place)
    names, message_type, literal = followed.names, followed.message_type, followed.literal
    if asked.deletes and format == "raw":
        raise UsageError(
            "SOW-CLI-012",
            "--deletes and --format raw exclude each other: a payload alone does not say that its record was deleted",
            hint="use --format ndjson, or remove --deletes",
        )
    with invocation.open_instance(*names, fix_names=followed.fix_names) as instance:
        note_filter(instance, asked.filter)
        replayed = asked.bookmark is not None or place.store is not None
        topics = _resolve_topics(instance, names, message_type, literal=literal, replayed=replayed)
        # A view is not computed for this, and what has no records yet may come to have any field.
        stored = [Target(topic=one) for one in topics if one.file is not None and has_records(instance, one)]
        if stored and len(stored) == len(topics):
            named = QueryOptions(filter=asked.filter, order_by=asked.order_by, select=asked.select)
            report_unknown_fields(instance, stored, apply_unknown(invocation, named, None, strict=followed.strict))
        with hold_place(invocation, instance, place, topics, " ".join(names), asked) as (asked, places):
            several = len(topics) != 1
            printing = EventPrinter(
                invocation, instance, format=format, controlled=controlled, several=several, places=places
            )
            printing.run(topics, asked, _build_resolver(instance, names, message_type, literal=literal))


def _apply_since_last(invocation: Invocation, place: PlaceOptions) -> PlaceOptions:
    """Return the options that ``--since-last`` stands for. Raises UsageError ``SOW-CLI-012`` beside one of them."""
    if not place.since_last:
        return place
    given = {"--store": place.store, "--client": place.client, "--store-config": place.store_config}
    if found := next((name for name, value in given.items() if value is not None), None):
        message = f"--since-last and {found} exclude each other"
        raise UsageError("SOW-CLI-012", message, hint="give --store, --client and --commit for a place of your own")
    store = invocation.find_config_path().absolute().parent / LAST_PLACE_STORE
    return replace(place, store=str(store), client=LAST_PLACE_CLIENT, commit=True)


def follow_query(
    invocation: Invocation,
    names: Sequence[str],
    message_type: str | None,
    asked: QueryOptions,
    *,
    is_shaped: bool,
    literal: bool,
) -> int:
    """``query --follow``: the records that match, then the messages behind them, as payloads.

    Raises UsageError ``SOW-CLI-097`` where other options shape the output (``is_shaped``).
    """
    if is_shaped or asked.projection is not None or asked.fresh:
        hint = (
            "with --follow, use a filter, --sow-key, --order-by, --top-n, --skip-n and --select; "
            "for other options, use subscribe"
        )
        raise UsageError(
            "SOW-CLI-097", "--follow prints payloads line by line, and supports no other format", hint=hint
        )
    wanted = SubscribeOptions(
        filter=asked.filter,
        sow_keys=asked.sow_keys,
        keys=asked.keys,
        order_by=asked.order_by,
        top_n=asked.top_n,
        skip_n=asked.skip_n,
        select=asked.select,
    )
    with invocation.open_instance(*names) as instance:
        topics = _resolve_topics(instance, names, message_type, literal=literal)
        EventPrinter(invocation, instance, format="raw", controlled=False).run(
            topics, wanted, _build_resolver(instance, names, message_type, literal=literal)
        )
    return 0


def _resolve_topics(
    instance: Instance, names: Sequence[str], message_type: str | None, *, literal: bool, replayed: bool = False
) -> list[TopicConfig]:
    """The topics that a subscription to ``names`` follows, each once."""
    from sowctl.cli.lookup import hint_at_filter

    found: list[TopicConfig] = []
    for place, name in enumerate(names):
        with hint_at_filter(place):
            found += resolve_followed_topics(instance, name, message_type, literal=literal, replayed=replayed)
    return unite_followed_topics(found)


def _build_resolver(
    instance: Instance, names: Sequence[str], message_type: str | None, *, literal: bool
) -> NewTopicResolver | None:
    """The resolver of topics that one of ``names`` takes up later; None where none does."""
    found = [build_new_topic_resolver(instance, name, message_type, literal=literal) for name in names]
    resolvers = [resolver for resolver in found if resolver is not None]
    if len(resolvers) <= 1:
        return resolvers[0] if resolvers else None

    def resolve(name: str, kind: str) -> TopicConfig | None:
        return next((topic for one in resolvers if (topic := one(name, kind)) is not None), None)

    return resolve
