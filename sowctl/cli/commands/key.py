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
    topic: Annotated[str, Argument("TOPIC", "the topic that the messages would go to", complete="topic")],
    files: Annotated[
        list[str] | None, Argument("FILE", "files with messages; - or none: standard input", complete="file")
    ] = None,
    message_type: MessageType = None,
    framing: Framing = None,
    null: NullFraming = False,
    sow_key: Annotated[
        str | None, option("--sow-key", help="the key, for topics whose keys publishers choose", metavar="KEY")
    ] = None,
    allow_null_key: Annotated[
        bool, option("--allow-null-key", help="a key field that is null counts as a value")
    ] = False,
    format: Format = None,
    columns: Columns = None,
    no_headers: NoHeaders = False,
) -> int:
    """Print the SOW key of every message, and what it is made of. Nothing is published.

    Shown are the key as clients see it, the key that the publisher chose, the key domain, the texts of the key fields,
    and the check word, by which two messages of one key that are not the same record are told apart. Preprocessing
    comes before the key. Ends with status 3 where a message has no key.
    """
    from sowctl.cli.io.emit import Choice, Sink
    from sowctl.cli.io.sources import framing_of, kind_of
    from sowctl.engine.options import PublishOptions
    from sowctl.engine.topics.targets import find_publishable
    from sowctl.engine.verbs.key import KeyTeller

    sink = Sink(invocation, Choice(format, columns=columns, no_headers=no_headers))
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
