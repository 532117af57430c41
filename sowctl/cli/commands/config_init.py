"""``sowctl config init``: a first configuration."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from msgspec import Struct

from sowctl.cli.context import Invocation
from sowctl.declarations import Argument, declare_option
from sowctl.errors import RefusedError, UsageError

if TYPE_CHECKING:
    from sowctl.config.initial_config import Answers, InitialTopic

EXAMPLES = (
    "sowctl config init new.xml --topic orders=/orderId --topic customers=/customerId",
    "sowctl config init - --topic fills=/orderId,/line --message-type nvfix --no-journal",
    "sowctl config init quotes.xml --name desk --topic '[xml].[/quotes]=/quote/@id' --journal ./log",
)


class ConfigInitArguments(Struct, frozen=True, kw_only=True):
    """Options and operands of ``sowctl config init``."""

    file: Annotated[
        str, Argument("CONFIG", "File to create; - for standard output. Default: sowctl.xml.", complete="file")
    ] = "sowctl.xml"
    topic: Annotated[
        list[str] | None,
        declare_option(
            "--topic",
            help="Topic: NAME, NAME=/key,/key, NAME:/key,/key or [type].[name]=/key. May be repeated.",
            metavar="TOPIC",
        ),
    ] = None
    key: Annotated[
        list[str] | None,
        declare_option("--key", help="Key field of topics without their own. May be repeated.", metavar="PATH"),
    ] = None
    message_type: Annotated[
        str, declare_option("--message-type", help="Message type of topics without their own.", metavar="TYPE")
    ] = "json"
    name: Annotated[
        str | None,
        declare_option("--name", help="Name of the instance. Default: the name of the directory.", metavar="NAME"),
    ] = None
    journal: Annotated[
        str, declare_option("--journal", help="Journal directory.", metavar="DIR", complete="directory")
    ] = "./journals"
    no_journal: Annotated[bool, declare_option("--no-journal", help="Configure no transaction log.")] = False
    json: Annotated[
        bool, declare_option("--json", help="Print one JSON object with the settings of the created file.")
    ] = False


def run(invocation: Invocation, arguments: ConfigInitArguments) -> int:
    """Create a small commented configuration that passes validate and lint.

    Without --topic, the command asks for the settings on a terminal. An existing file is never replaced (exit status
    8).
    """
    from sowctl.config.initial_config import Answers, compose_config, parse_topics
    from sowctl.output.display import escape_line
    from sowctl.remote.place import require_local_path

    if arguments.json and arguments.file == "-":
        raise UsageError("SOW-CLI-012", "--json and CONFIG - exclude each other", hint="name a file")
    path = require_local_path(arguments.file)
    # A dangling link does not exist for exists(), and must not be replaced either.
    if arguments.file != "-" and (path.exists() or path.is_symlink()):
        raise RefusedError(
            "SOW-CLI-035",
            "the file exists",
            place=arguments.file,
            hint="name another file; existing files are never replaced",
        )
    chosen = arguments.name or _choose_name(path if arguments.file != "-" else Path("-"))
    if arguments.topic:
        answers = Answers(
            chosen,
            parse_topics(arguments.topic, arguments.message_type, arguments.key or ()),
            None if arguments.no_journal else arguments.journal,
        )
    else:
        answers = _ask_answers(
            invocation, chosen, arguments.message_type, None if arguments.no_journal else arguments.journal
        )
    text = compose_config(answers)
    if arguments.file == "-":
        invocation.streams.stdout.write(text.encode())
        return 0
    from sowctl.output_file import open_whole_file

    with open_whole_file(path, force=False, seam=invocation.seam) as stream:
        stream.write(text.encode())
    if arguments.json:
        from sowctl.values.jsonline import format_json_line

        topics = [
            {"topic": one.name, "message_type": one.message_type, "keys": list(one.keys)} for one in answers.topics
        ]
        row = {"path": str(path), "name": answers.name, "journal": answers.journal, "topics": topics}
        invocation.streams.stdout.write(format_json_line(row).encode() + b"\n")
    told = "; ".join(f"{one.name} with key {', '.join(one.keys) or 'of its publishers'}" for one in answers.topics)
    invocation.note(
        f"created {escape_line(arguments.file)}: {escape_line(told)}; try: sowctl -c {escape_line(arguments.file)} info"
    )
    return 0


def _choose_name(path: Path) -> str:
    found = "".join(c if c.isascii() and (c.isalnum() or c in "_-.") else "-" for c in path.absolute().parent.name)
    return found.strip("-.") or "instance"


def _ask_answers(invocation: Invocation, name: str, message_type: str, journal: str | None) -> Answers:
    """The answers of the user at the terminal. Raises UsageError ``SOW-CFG-064`` without a terminal."""
    from sowctl.cli.streams import is_terminal
    from sowctl.config.initial_config import Answers, check_name

    streams = invocation.streams
    if not (is_terminal(streams.stdin) and is_terminal(streams.stderr)):
        raise UsageError(
            "SOW-CFG-064", "a topic is required", hint="name one with --topic, for example orders=/orderId"
        )
    name = check_name(_ask_line(invocation, "name of the instance", name))
    topics: list[InitialTopic] = []
    while (found := _ask_topic(invocation, message_type, first=not topics)) is not None:
        topics.append(found)
    where = _ask_line(invocation, "directory of the journals, - for none", journal or "-")
    return Answers(name, tuple(topics), None if where == "-" else where)


def _ask_topic(invocation: Invocation, message_type: str, *, first: bool) -> InitialTopic | None:
    """The next topic, asked for until it is valid; None if the user enters no further one."""
    from sowctl.config.initial_config import InitialTopic, check_topic
    from sowctl.values.paths import split_list

    while True:
        name = _ask_line(invocation, "topic" if first else "another topic, empty for no more", "")
        if not name and not first:
            return None
        kind = _ask_line(invocation, f"message type of {name}", message_type) if name else message_type
        keys = (
            _ask_line(invocation, "key fields, for example /id or /a,/b; empty: publishers send keys", "")
            if name
            else ""
        )
        try:
            return check_topic(InitialTopic(name, kind, tuple(filter(None, split_list(keys)))))
        except UsageError as error:
            invocation.warn(f"{error.message}; {error.hint or 'try again'}")


def _ask_line(invocation: Invocation, question: str, default: str) -> str:
    """One line from the terminal. Raises UsageError ``SOW-CLI-036`` at the end of the input."""
    line = invocation.streams.ask_line(f"{question}{f' [{default}]' if default else ''}: ")
    if not line:
        raise UsageError("SOW-CLI-036", "the input ended before all questions were answered", hint="use --topic")
    return line.decode("utf-8", "replace").strip() or default
