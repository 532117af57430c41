"""``sowctl key``: the SOW keys that messages would get."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from sowctl.cli.context import Invocation
from sowctl.cli.words.declare import Argument, option
from sowctl.cli.words.options import Columns, Format, Framing, MessageType, NoHeaders, NullFraming

if TYPE_CHECKING:
    from sowctl.engine.verbs.key import KeyTeller

EXAMPLES = (
    "echo '{\"orderId\":10417}' | sowctl key orders",
    "sowctl key orders fills.ndjson --format ndjson",
)


def run(
    invocation: Invocation,
    topic: Annotated[str, Argument("TOPIC", "Topic for which the keys are computed.", complete="topic")],
    files: Annotated[
        list[str] | None, Argument("FILE", "Files with messages; - or none reads standard input.", complete="file")
    ] = None,
    message_type: MessageType = None,
    framing: Framing = None,
    null: NullFraming = False,
    sow_key: Annotated[
        str | None, option("--sow-key", help="SOW key, for topics whose publishers choose the keys.", metavar="KEY")
    ] = None,
    allow_null_key: Annotated[
        bool, option("--allow-null-key", help="Accept null as the value of a key field.")
    ] = False,
    format: Format = None,
    columns: Columns = None,
    no_headers: NoHeaders = False,
) -> int:
    """Print the SOW key of each message and its components. Nothing is published.

    The output has the SOW key, the key chosen by the publisher, the key domain, the values of the key fields, and the
    check word, which distinguishes messages of different records with the same key. Preprocessing is applied before the
    key is computed. The exit status is 3 if a message has no key.
    """
    from sowctl.cli.io.emit import Choice, Sink
    from sowctl.cli.io.sources import framing_of, kind_of
    from sowctl.engine.options import PublishOptions
    from sowctl.engine.topics.targets import find_publishable
    from sowctl.engine.verbs.key import KeyTeller

    sink = Sink(invocation, Choice(format, columns=columns, no_headers=no_headers, facts=True))
    with invocation.open_instance() as instance:
        options = PublishOptions(sow_key=sow_key, allow_null_key=allow_null_key)
        teller = KeyTeller(instance, find_publishable(instance, topic, message_type), options)
        refused: list[str] = []
        names = files or ["-"]
        sink.write_rows(
            _rows(
                invocation,
                teller,
                names,
                "nul" if null else framing or framing_of(instance, topic, message_type),
                kind_of(instance, topic, message_type),
                refused.append,
            )
        )
    return 3 if refused else 0


def _rows(
    invocation: Invocation,
    teller: KeyTeller,
    names: Sequence[str],
    framing: str,
    kind: str | None,
    refused: Callable[[str], None],
) -> Iterator[dict[str, Any]]:
    """A row per message of the inputs; the code of each message that has none goes to ``refused``."""
    from sowctl.cli.io.reporting import RefusedWarnings
    from sowctl.cli.io.sources import frames
    from sowctl.engine.writing.rejects import placed_in
    from sowctl.output.reports import as_dict

    with RefusedWarnings(invocation) as warnings:
        for name, reader in frames(invocation, names, framing, kind):
            for chunk in reader:
                keys, refusals = teller.keys(chunk.payloads, chunk.envelopes)
                for one in placed_in(name, chunk, refusals):
                    refused(one.code)
                    warnings.tell(one)
                yield from map(as_dict, keys)
