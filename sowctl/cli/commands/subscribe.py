"""``sowctl subscribe``: records, then what happens to them."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from sowctl.cli.context import Invocation
from sowctl.cli.parsing import queryoptions as asking
from sowctl.cli.parsing import replayoptions as replaying
from sowctl.cli.parsing.options import Filter, FixNames, LiteralTopic, MessageType, SowKeys, Target
from sowctl.declarations import Argument, declare_option
from sowctl.errors import UsageError

EXAMPLES = (
    "sowctl subscribe orders",
    "sowctl subscribe orders \"/symbol = 'IBM'\" --no-sow --data-only",
    "sowctl subscribe orders --sow-key 1842,1843 --until-now",
    "sowctl subscribe '^orders' --until-now",
    "sowctl subscribe orders --max 1 --for 5s",
    "sowctl subscribe orders --oof -o '/price DESC' --top-n 10 --skip-n 0",
    "sowctl subscribe orders --no-sow --bookmark '[20260105T090000:20260105T093000)' --rate 1000X",
    "sowctl subscribe orders --no-sow --store shop.bookmarks --client billing --commit --until-now",
)
COMMON_OPTIONS = ("filter", "no_sow", "oof", "bookmark", "store", "until_now", "data_only", "options")


class SubscribeArguments(Struct, frozen=True, kw_only=True):
    """Options and operands of ``sowctl subscribe``."""

    target: Target
    expression: Annotated[str | None, Argument("FILTER", "Same as --filter.")] = None
    filter: Filter = None
    sow_key: SowKeys = None
    order_by: asking.OrderBy = None
    top_n: asking.TopN = None
    skip_n: asking.SkipN = None
    select: asking.Select = None
    no_sow: Annotated[bool, declare_option("--no-sow", help="Skip the initial records; print only new messages.")] = (
        False
    )
    message_type: MessageType = None
    literal_topic: LiteralTopic = False
    batch_size: Annotated[
        int,
        declare_option(
            "--batch-size", help="The batch_size reported with the records.", metavar="COUNT", minimum=1, maximum=10_000
        ),
    ] = 1
    query_id: Annotated[
        str | None,
        declare_option("--query-id", help="The query_id of the record events and of their group.", metavar="TEXT"),
    ] = None
    oof: Annotated[
        bool, declare_option("--oof", help="Print an event for each record that leaves the result, with the reason.")
    ] = False
    delta: Annotated[
        bool, declare_option("--delta", help="For records printed before, print only the changed fields.")
    ] = False
    no_empties: Annotated[
        bool, declare_option("--no-empties", help="With --delta: print nothing if no field has changed.")
    ] = False
    send_keys: Annotated[
        bool,
        declare_option(
            "--send-keys", help="With --no-empties: include the key fields in every delta, as is done without it."
        ),
    ] = False
    projection: asking.Projection = None
    grouping: asking.Grouping = None
    conflation: Annotated[
        str | None,
        declare_option(
            "--conflation",
            help="Print at most one message per key and interval, for example 2s or auto.",
            metavar="TIME",
        ),
    ] = None
    conflation_key: Annotated[
        str | None,
        declare_option(
            "--conflation-key", help="Fields that identify a message. Default: the SOW key.", metavar="LIST"
        ),
    ] = None
    options: Annotated[
        str | None,
        declare_option("--options", help="AMPS option string, for example 'top_n=10,skip_n=0,oof'.", metavar="TEXT"),
    ] = None
    control: Annotated[
        bool, declare_option("--control", help="Read control lines from standard input: replace, pause, resume, stop.")
    ] = False
    strict: asking.Strict = False
    until_now: Annotated[
        bool,
        declare_option(
            "--until-now", help="Stop at the position that is the end of the journal when the command starts."
        ),
    ] = False
    lasting: Annotated[
        str | None, declare_option("--for", help="Stop after TIME, for example 10s.", metavar="TIME")
    ] = None
    most: Annotated[
        int | None,
        declare_option(
            "--max", help="Stop after COUNT messages, not counting the initial records.", metavar="COUNT", minimum=1
        ),
    ] = None
    progress_every: Annotated[
        str | None,
        declare_option("--progress-every", help="Print the position every TIME if it has changed.", metavar="TIME"),
    ] = None
    bookmark: replaying.Bookmark = None
    bookmark_not_found: replaying.NotFound = None
    rate: replaying.Rate = None
    rate_max_gap: replaying.RateMaxGap = None
    store: replaying.Store = None
    store_config: replaying.StoreConfig = None
    client: replaying.Client = None
    sub_id: replaying.SubId = None
    commit: replaying.Commit = False
    ack: replaying.Ack = False
    commit_every: replaying.CommitEvery = None
    data_only: Annotated[bool, declare_option("--data-only", help="Print payloads instead of events.")] = False
    fix_names: FixNames = False


def run(invocation: Invocation, arguments: SubscribeArguments) -> int:
    """Print the records of topics at one instant, then every message published after it, as events.

    Each event is a JSON object on one line; for its members, see sow-events(5). On a terminal, each event is a line of
    text: time, event, SOW key and the beginning of the message. No message is lost or repeated between the records and
    the following messages, even while others publish. The command runs until it is interrupted, or
    until the limit of --until-now, --for or --max. Topics without a SOW have no initial records. A topic without a
    journal is followed through its store: if several messages for one key arrive between two reads, only the last is
    printed, and there are no bookmarks. The same holds for views, whose rows are recomputed and compared when their
    sources change.

    With --control, each line of standard input is a JSON object:
    {"command":"replace","filter":...,"sow_keys":"KEY,...", "options":...,"topic":...}, where omitted members keep their
    values, or one with the command pause, resume or stop. An empty string removes the filter or the keys. After a
    replace, only the differences are printed, in a group of their own; with --oof, records that leave the result are
    printed first.

    --bookmark starts at a position in the journal: with the records retained for that position, for topics with
    History, or with --no-sow with every message published after it. Messages may be repeated, but none is lost. The
    event completed marks the end of the replay. --store keeps the position for the next run; with --commit, only one
    run at a time can hold it.
    """
    from sowctl.cli.parsing.option_values import parse_interval, parse_sow_keys
    from sowctl.engine.options import QueryOptions, SubscribeOptions
    from sowctl.engine.topics.patterns import has_records
    from sowctl.engine.topics.targets import Target as Resolved
    from sowctl.engine.topics.targets import build_new_topic_resolver, resolve_followed_topics
    from sowctl.engine.verbs.query import report_unknown_fields

    if arguments.filter is not None and arguments.expression is not None:
        raise UsageError("SOW-CLI-013", "the filter is given twice", hint="give FILTER or --filter, not both")
    asked = SubscribeOptions(
        filter=arguments.filter if arguments.filter is not None else arguments.expression,
        sow_keys=parse_sow_keys(arguments.sow_key) or None,
        order_by=arguments.order_by,
        top_n=arguments.top_n,
        skip_n=arguments.skip_n,
        select=arguments.select,
        sow=not arguments.no_sow,
        batch_size=arguments.batch_size,
        query_id=arguments.query_id,
        until_now=arguments.until_now,
        lasting=parse_interval("--for", arguments.lasting),
        most=arguments.most,
        progress_every=parse_interval("--progress-every", arguments.progress_every),
        oof=arguments.oof,
        delta=arguments.delta,
        no_empties=arguments.no_empties,
        send_keys=arguments.send_keys,
        projection=arguments.projection,
        grouping=arguments.grouping,
        conflation=arguments.conflation,
        conflation_key=arguments.conflation_key,
        bookmark=arguments.bookmark,
        bookmark_not_found=arguments.bookmark_not_found,
        rate=arguments.rate,
        rate_max_gap=parse_interval("--rate-max-gap", arguments.rate_max_gap),
    )
    if arguments.options is not None:
        from sowctl.engine.subscriptions.control import apply_subscription_text

        asked = apply_subscription_text(asked, arguments.options)
    from sowctl.cli.commands.bodies.places import PlaceOptions, hold_place
    from sowctl.cli.commands.bodies.subscribe import EventPrinter

    keeping = PlaceOptions(
        arguments.store,
        arguments.store_config,
        arguments.client,
        arguments.sub_id,
        arguments.commit,
        arguments.ack,
        arguments.commit_every,
    )

    with invocation.open_instance(arguments.target, fix_names=arguments.fix_names) as instance:
        replayed = asked.bookmark is not None or arguments.store is not None
        topics = resolve_followed_topics(
            instance, arguments.target, arguments.message_type, literal=arguments.literal_topic, replayed=replayed
        )
        # A view is not computed for this, and what has no records yet may come to have any field.
        stored = [Resolved(topic=one) for one in topics if one.file is not None and has_records(instance, one)]
        if stored and len(stored) == len(topics):
            named = QueryOptions(filter=asked.filter, order_by=asked.order_by, select=asked.select)
            report_unknown_fields(
                instance, stored, asking.apply_unknown(invocation, named, None, strict=arguments.strict)
            )
        with hold_place(invocation, instance, keeping, topics, arguments.target, asked) as (asked, places):
            several = len(topics) != 1
            printing = EventPrinter(
                invocation,
                instance,
                data_only=arguments.data_only,
                controlled=arguments.control,
                several=several,
                places=places,
            )
            printing.run(
                topics,
                asked,
                build_new_topic_resolver(
                    instance, arguments.target, arguments.message_type, literal=arguments.literal_topic
                ),
            )
    return 0
