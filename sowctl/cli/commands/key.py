"""``sowctl key``: the SOW keys that messages would get."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Struct

from sowctl.cli.context import Invocation
from sowctl.cli.parsing.options import Framing, MessageType, NullFraming, OutputChoice
from sowctl.declarations import Argument, declare_option, declare_part

if TYPE_CHECKING:
    from sowctl.engine.verbs.key import KeyFinder

EXAMPLES = (
    "echo '{\"orderId\":10417}' | sowctl key orders",
    "sowctl key orders fills.ndjson --format ndjson",
)


class KeyArguments(Struct, frozen=True, kw_only=True):
    """Options and operands of ``sowctl key``."""

    topic: Annotated[str, Argument("TOPIC", "Topic for which the keys are computed.", complete="topic")]
    files: Annotated[
        list[str] | None, Argument("FILE", "Files with messages; - or none reads standard input.", complete="file")
    ] = None
    message_type: MessageType = None
    framing: Framing = None
    null: NullFraming = False
    sow_key: Annotated[
        str | None,
        declare_option("--sow-key", help="SOW key, for topics whose publishers choose the keys.", metavar="KEY"),
    ] = None
    allow_null_key: Annotated[
        bool, declare_option("--allow-null-key", help="Accept null as the value of a key field.")
    ] = False
    output: Annotated[OutputChoice, declare_part("format", "columns", "no_headers")]


def run(invocation: Invocation, arguments: KeyArguments) -> int:
    """Print the SOW key of each message and its components. Nothing is published.

    The output has the SOW key, the key chosen by the publisher, the key domain, the values of the key fields, and the
    check word, which distinguishes messages of different records with the same key. Preprocessing is applied before the
    key is computed. The exit status is 3 if a message has no key.
    """
    from sowctl.cli.io.output_sink import Sink
    from sowctl.cli.io.sources import find_framing, find_kind
    from sowctl.engine.options import PublishOptions
    from sowctl.engine.topics.targets import find_publish_topic
    from sowctl.engine.verbs.key import KeyFinder

    sink = Sink(
        invocation,
        arguments.output,
        facts=True,
    )
    with invocation.open_instance() as instance:
        options = PublishOptions(sow_key=arguments.sow_key, allow_null_key=arguments.allow_null_key)
        teller = KeyFinder(instance, find_publish_topic(instance, arguments.topic, arguments.message_type), options)
        refused: list[str] = []
        names = arguments.files or ["-"]
        sink.write_rows(
            _iterate_rows(
                invocation,
                teller,
                names,
                "nul"
                if arguments.null
                else arguments.framing or find_framing(instance, arguments.topic, arguments.message_type),
                find_kind(instance, arguments.topic, arguments.message_type),
                refused.append,
            )
        )
    return 3 if refused else 0


def _iterate_rows(
    invocation: Invocation,
    teller: KeyFinder,
    names: Sequence[str],
    framing: str,
    kind: str | None,
    refused: Callable[[str], None],
) -> Iterator[dict[str, Any]]:
    """A row per message of the inputs; the code of each message without a key is passed to ``refused``."""
    from sowctl.cli.io.report_output import RefusedWarnings
    from sowctl.cli.io.sources import open_frame_readers
    from sowctl.engine.writing.rejects import locate_chunk_refusals
    from sowctl.output.reports import as_dict

    with RefusedWarnings(invocation) as warnings:
        for name, reader in open_frame_readers(invocation, names, framing, kind):
            for chunk in reader:
                keys, refusals = teller.find_keys(chunk.payloads, chunk.envelopes)
                for one in locate_chunk_refusals(name, chunk, refusals):
                    refused(one.code)
                    warnings.warn(one)
                yield from map(as_dict, keys)
