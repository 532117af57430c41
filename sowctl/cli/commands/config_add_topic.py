"""``sowctl config add topic``: a topic for an existing configuration."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct
from msgspec.structs import replace

from sowctl.cli.commands.bodies.config_add import NoJournal, Writing
from sowctl.cli.context import Invocation
from sowctl.declarations import Argument, declare_option
from sowctl.errors import UsageError

EXAMPLES = (
    "sowctl config add topic fills=/orderId,/fillId",
    "sowctl config add topic prices --key /symbol --expiration 10m --index /venue",
    "sowctl config add topic '[xml].[trades]=/trade/@id' --history 7d --granularity 1m --dry-run",
)


class ConfigAddTopicArguments(Struct, frozen=True, kw_only=True):
    """Options and operands of ``sowctl config add topic``."""

    topic: Annotated[str, Argument("TOPIC", "New topic: NAME, NAME=/key,/key, NAME:/key,/key or [type].[name]=/key.")]
    key: Annotated[
        list[str] | None,
        declare_option("--key", help="Key field, if TOPIC names none. May be repeated.", metavar="PATH"),
    ] = None
    message_type: Annotated[
        str,
        declare_option(
            "--message-type", help="Message type, if TOPIC names none.", metavar="TYPE", complete="message type"
        ),
    ] = "json"
    file_name: Annotated[
        str | None,
        declare_option(
            "--file-name",
            help="Path of the store. %n stands for name and type. Default: as for the last topic of the file, "
            "otherwise ./sow/%n.sow.",
            metavar="FILE",
        ),
    ] = None
    transient: Annotated[bool, declare_option("--transient", help="Keep the records only in the journal.")] = False
    expiration: Annotated[
        str | None,
        declare_option(
            "--expiration",
            help="Lifetime of records, for example 10m; or enabled, for the expirations of publishers alone.",
            metavar="INTERVAL",
        ),
    ] = None
    history: Annotated[
        str | None,
        declare_option("--history", help="Keep earlier versions of records for this long.", metavar="INTERVAL"),
    ] = None
    granularity: Annotated[
        str | None,
        declare_option(
            "--granularity",
            help="With --history: minimum time between kept versions of a key. Default: 0s, which keeps all.",
            metavar="INTERVAL",
        ),
    ] = None
    index: Annotated[
        list[str] | None,
        declare_option("--index", help="Field to build a memo index of. May be repeated.", metavar="PATH"),
    ] = None
    no_journal: NoJournal = False
    writing: Writing = Writing()


def run(invocation: Invocation, arguments: ConfigAddTopicArguments) -> int:
    """Add a topic to a configuration, and to its transaction log if it has one.

    The new elements are printed with their places in the file. Comments and formatting of the file stay, and it is
    replaced as a whole. The command is refused, and the file not changed, if sowctl validate would report an error. A
    comment beside the new topic disables advice of sowctl lint about what was asked for; other new advice is printed
    as a warning.
    """
    from sowctl.cli.commands.bodies.config_add import add_journal_part, open_config, write_addition
    from sowctl.config.additions import NewPart
    from sowctl.config.initial_config import refuse_missing_slash, split_topic
    from sowctl.config.model import TopicConfig
    from sowctl.config.new_elements import DEFAULT_FILE_NAME, build_history, build_topic

    if arguments.granularity is not None and arguments.history is None:
        raise UsageError("SOW-CFG-069", "--granularity requires --history", hint="add --history 1d")
    if arguments.transient and arguments.file_name is not None:
        raise UsageError("SOW-CLI-012", "--transient and --file-name exclude each other", hint="remove one of them")
    topic = split_topic(arguments.topic, arguments.message_type)
    refuse_missing_slash(arguments.topic, topic)
    if topic.keys and arguments.key:
        raise UsageError("SOW-CLI-012", "the key fields are given twice", hint="remove --key")
    topic = replace(topic, keys=topic.keys or tuple(arguments.key or ()))
    config = open_config(invocation, arguments.writing)
    others = [entry.file_name for entry in config.config.sow if isinstance(entry, TopicConfig) and entry.file_name]
    # A FileName without %n belongs to a single topic.
    usual = next((name for name in reversed(others) if "%n" in name and "${" not in name), DEFAULT_FILE_NAME)
    element = build_topic(
        topic.name,
        topic.message_type,
        keys=topic.keys,
        file_name=None if arguments.transient else arguments.file_name or usual,
        expiration=arguments.expiration,
        history=None if arguments.history is None else build_history(arguments.history, arguments.granularity or "0s"),
        indexes=arguments.index or (),
    )
    parts = [NewPart("SOW", element)]
    if not arguments.no_journal:
        add_journal_part(config, parts, topic.name, topic.message_type)
    change = f"added topic {topic.name} with key {', '.join(topic.keys) or 'of its publishers'}"
    # Options request a topic without a journal, or all versions, so the advice against them is suppressed.
    chosen = frozenset({"B050"} if arguments.no_journal else ()) | {"B053"}
    return write_addition(invocation, config, config.add_parts(parts, chosen), arguments.writing, change)
