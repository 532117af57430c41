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
"""Control lines to keep until the subscription waits; further ones are not read yet."""
LAST_PLACE_STORE, LAST_PLACE_CLIENT = "sowctl.bookmarks", "sowctl"
"""The bookmark store of ``--since-last``, beside the configuration, and the client of its positions."""


class EventPrinter:
    """Prints the events of one run. ``controlled``: standard input has control lines. ``places`` tracks its position.

    ``format``: text, lines for people, the default on a terminal; ndjson, an object per line; raw, payloads.
    ``several``: events of more than one topic."""

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
        # A controlling program needs the events unchanged.
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
        """Print events until the subscription ends; ``joining`` resolves topics that are created later."""
        streams = self._invocation.streams
        # The output of a separate process may be a pipe whose reader closes it while nothing is written.
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
            # The records have been read; their files are released, so that a replaced store can be removed.
            self._instance.close()
            while True:
                self._write_deliveries(subscription.ready(), subscription)
                if subscription.finished:
                    break
                if self._later:
                    # Lines that arrived in the meantime.
                    self._apply_controls(subscription, b"")
                    continue
                ready = subscription.wait()
                if self._hearing is not None and self._hearing.number in ready:
                    data = self._hearing.read()
                    if data is None:
                        # No further control lines; the subscription continues unchanged.
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
                # Acknowledgements during a long replay advance the position at once.
                self._take_lines(self._hearing.read_available())
        # Before every wait, all output must have reached the reader.
        self._out.flush()
        if places is not None:
            places.note_idle(subscription)

    def _await_acknowledgements(self, subscription: Subscription) -> None:
        """Wait for outstanding acknowledgements, until the consumer has sent them or closed its end."""
        hearing, places = self._hearing, self._places
        if hearing is not None and places is not None:
            while places.has_unacknowledged and (data := hearing.read()) is not None:
                self._apply_controls(subscription, data)

    def _take_lines(self, data: bytes) -> None:
        """Process complete lines that acknowledge; keep others until the subscription waits."""
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
        """Run the commands of complete lines; an invalid one is reported, and the subscription continues."""
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
        """Print a warning about an invalid line. Raises the error if it has another cause."""
        if error.exit_status != 2:
            raise error
        self._invocation.warn(error.message, code=error.code, place=error.place, hint=error.hint)

    def _find_joining(self, target: str) -> NewTopicResolver | None:
        return build_new_topic_resolver(self._instance, target)

    def _find_topics(self, target: str) -> Sequence[TopicConfig]:
        try:
            return resolve_followed_topics(self._instance, target)
        except MissingError as error:
            # An error about one line, while the others continue, must not end the command.
            raise UsageError(error.code, error.message, place=error.place, hint=error.hint) from None


class FollowedTopics(Struct, frozen=True):
    """The topics of a subscription as given. ``strict``: a named field that occurs in no record is an error."""

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
    """Print the events of a subscription until it ends, and store its position if ``place`` requires it."""
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
        # Views are not computed for this check, and a topic without records may get any field later.
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
    """Return the options that ``--since-last`` implies. Raises UsageError ``SOW-CLI-012`` beside one of them."""
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
    """``query --follow``: print the payloads of the matching records, then of the messages after them.

    Raises UsageError ``SOW-CLI-097`` if other options change the form of the output (``is_shaped``).
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
    """The topics that a subscription to ``names`` follows, without duplicates."""
    from sowctl.cli.lookup import hint_at_filter

    found: list[TopicConfig] = []
    for place, name in enumerate(names):
        with hint_at_filter(place):
            found += resolve_followed_topics(instance, name, message_type, literal=literal, replayed=replayed)
    return unite_followed_topics(found)


def _build_resolver(
    instance: Instance, names: Sequence[str], message_type: str | None, *, literal: bool
) -> NewTopicResolver | None:
    """The resolver of topics that match one of ``names`` later; None if no name is a pattern."""
    found = [build_new_topic_resolver(instance, name, message_type, literal=literal) for name in names]
    resolvers = [resolver for resolver in found if resolver is not None]
    if len(resolvers) <= 1:
        return resolvers[0] if resolvers else None

    def resolve(name: str, kind: str) -> TopicConfig | None:
        return next((topic for one in resolvers if (topic := one(name, kind)) is not None), None)

    return resolve
