"""``sowctl subscribe``: print records, then their changes."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from sowctl.cli.context import Invocation
from sowctl.cli.parsing.options import EventFormat, FixNames, LiteralTopic, MessageType, ReadTargets, Strict
from sowctl.cli.parsing.place_options import PlaceOptions
from sowctl.declarations import declare_option
from sowctl.engine.options import SubscribeOptions
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
    "sowctl subscribe orders --no-sow --deletes --store shop.bookmarks --client copy --commit --until-now",
)
COMMON_OPTIONS = ("filter", "sow", "oof", "bookmark", "store", "until_now", "data_only", "options")


class SubscribeArguments(Struct, frozen=True, kw_only=True):
    """Options and operands of ``sowctl subscribe``."""

    targets: ReadTargets
    query: SubscribeOptions
    message_type: MessageType = None
    literal_topic: LiteralTopic = False
    options: Annotated[
        str | None,
        declare_option("--options", help="AMPS option string, for example 'top_n=10,skip_n=0,oof'.", metavar="TEXT"),
    ] = None
    control: Annotated[
        bool, declare_option("--control", help="Read control lines from standard input: replace, pause, resume, stop.")
    ] = False
    strict: Strict = False
    place: PlaceOptions
    format: EventFormat = None
    data_only: Annotated[bool, declare_option("--data-only", help="Same as --format raw.")] = False
    fix_names: FixNames = False


def run(invocation: Invocation, arguments: SubscribeArguments) -> int:
    """Print the records of topics at one instant, then every message published after it, as events.

    Each event is a JSON object on one line; for its members, see sow-events(5). On a terminal, each event is a line of
    text: time, event, SOW key if there is room, and the beginning of the message. No message is lost or repeated
    between the records and the following messages, even while others publish. The command runs until it is interrupted,
    or until the limit of --until-now, --for or --max. Topics without a SOW have no initial records. A topic without a
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
    run at a time can hold it. The position follows what was written, batch by batch: if a pipe breaks, the next
    run prints the batch again that it did not take as a whole; batches that were in the pipe are not printed again. For
    certainty, use --ack. With --no-sow, deletions and expirations are printed only with --deletes, as sow_delete.
    """
    from sowctl.cli.commands.bodies.subscribe import FollowedTopics, follow_topics

    if arguments.data_only and arguments.format not in (None, "raw"):
        hint = "give one of them"
        raise UsageError("SOW-CLI-012", f"--data-only and --format {arguments.format} exclude each other", hint=hint)
    asked = arguments.query
    if arguments.options is not None:
        from sowctl.engine.subscriptions.control import apply_subscription_text

        asked = apply_subscription_text(asked, arguments.options)
    follow_topics(
        invocation,
        FollowedTopics(
            arguments.targets,
            arguments.message_type,
            arguments.literal_topic,
            arguments.strict,
            arguments.fix_names,
        ),
        asked,
        arguments.place,
        format="raw" if arguments.data_only else arguments.format,
        controlled=arguments.control,
    )
    return 0
