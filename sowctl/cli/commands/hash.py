"""``sowctl hash``: the digest of a state."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from sowctl.cli.context import Invocation
from sowctl.cli.parsing.options import At, MessageType
from sowctl.declarations import Argument, declare_option
from sowctl.engine.options import Filter
from sowctl.errors import NegativeError, UsageError
from sowctl.output.display import escape_line

EXAMPLES = (
    "sowctl hash orders",
    "sowctl hash orders --expect 9f3c0e6a1d5b48e7a2c4f06b8d917e35",
    "sowctl hash orders \"/status = 'filled'\" --payloads",
    "sowctl hash --all",
    "sowctl hash orders --payloads --at 2026-01-05T10:00:00Z",
)


class HashArguments(Struct, frozen=True, kw_only=True):
    """Options and operands of ``sowctl hash``."""

    target: Annotated[
        str | None,
        Argument(
            "TARGET",
            "Name of a topic or view, a .sow file, or a regular expression over names.",
            complete="target",
            comes_first=True,
        ),
    ] = None
    all: Annotated[
        bool, declare_option("--all", help="Digest of each topic of the instance, and one over all of them.")
    ] = False
    filter: Filter = None
    at: At = None
    expect: Annotated[
        str | None,
        declare_option("--expect", help="Expected digest; the exit status is 1 if it differs.", metavar="HEX"),
    ] = None
    payloads: Annotated[
        bool,
        declare_option(
            "--payloads", help="Digest of keys and payloads only, without timestamps, txids, expirations and versions."
        ),
    ] = False
    message_type: MessageType = None
    format: Annotated[str, declare_option("--format", "-F", help="Output format.", choices=("text", "json"))] = "text"


def run(invocation: Invocation, arguments: HashArguments) -> int:
    """Print the digest of all records that have not expired.

    The digest does not depend on the order of the records or on how the store was built: a replay, a copy and the
    original have the same digest with the same configuration at the same time. With --payloads, instances that received
    the same messages at different times have the same digest, and diff finds no differences between them.
    With a filter, the digest is that of the matching records, without their versions.

    With --all, or if TARGET matches several topics, each topic has a line, and the last line is the digest over all of
    them: the first 32 hex digits of the SHA-256 of the lines "NAME.TYPE DIGEST", sorted by bytes, each ended by a line
    feed. --all leaves out views and other derived topics. --expect compares the last line.
    """
    # Parsed before the digest is computed, which may take long.
    wanted = _parse_expected(arguments.expect) if arguments.expect is not None else None
    from functools import partial

    from sowctl.cli.parsing.option_values import parse_at_option
    from sowctl.engine.sources.digest import combine_digests, compute_digest
    from sowctl.engine.topics.targets import Target, resolve_targets
    from sowctl.engine.views.openers import open_filtered_target

    text = arguments.target
    if (text is None) is not arguments.all:
        words = "TARGET or --all is missing" if text is None else "--all and TARGET exclude each other"
        raise UsageError("SOW-CLI-012", words, hint="with --all, a filter is given with --filter")
    when = parse_at_option(invocation, arguments.at)
    with invocation.open_instance(*(() if text is None else (text,))) as instance:
        targets = (
            [Target(topic=topic) for topic in instance.topics]
            if text is None
            else resolve_targets(instance, text, arguments.message_type, derived=True)
        )
        at = when.resolve_time(instance)
        named = [
            (
                target.topic.label if target.topic is not None and (text is None or len(targets) > 1) else str(text),
                compute_digest(
                    instance,
                    target,
                    at,
                    partial(open_filtered_target, filter=arguments.filter),
                    payloads=arguments.payloads,
                    partial=arguments.filter is not None,
                ),
            )
            for target in targets
        ]
    several = text is None or len(targets) > 1
    found = combine_digests(named) if several else named[0][1]
    if arguments.format == "json":
        from sowctl.output.reports import encode_report

        invocation.streams.stdout.write(encode_report(found).encode() + b"\n")
    else:
        lines = [f"{one.digest}  {escape_line(name)}\n" for name, one in named]
        invocation.streams.stdout.write("".join([*lines, *([f"{found.digest}  (all)\n"] if several else [])]).encode())
    for name, one in named:
        if one.note is not None:
            invocation.note(f"{escape_line(name)}: {one.note}")
    if wanted is not None and wanted != found.digest:
        raise NegativeError("SOW-CLI-017", f"the digest is {found.digest}, expected {wanted}", place=text)
    return 0


def _parse_expected(text: str) -> str:
    word = text.strip().lower()
    if len(word) != 32 or any(digit not in "0123456789abcdef" for digit in word):
        raise UsageError("SOW-CLI-016", f"--expect {text!r} is not a digest", hint="a digest has 32 hex digits")
    return word
