"""``sowctl journal dump``: what the log says."""

from __future__ import annotations

from typing import Annotated

from sowctl.cli.context import Invocation
from sowctl.cli.declare import Argument, option
from sowctl.cli.options import Columns, Force, Format, Output
from sowctl.errors import UsageError

EXAMPLES = (
    "sowctl journal dump --topic orders --from -15m",
    "sowctl journal dump --key 12915563182432364013",
    "sowctl journal dump -l 1000:1010 --no-data",
)


def run(
    invocation: Invocation,
    files: Annotated[
        list[str] | None, Argument("FILE", "journal files; default those of the configuration", complete="file")
    ] = None,
    topic: Annotated[str | None, option("--topic", help="only entries of this topic", metavar="NAME")] = None,
    key: Annotated[str | None, option("--key", help="only entries with this SOW key", metavar="KEY")] = None,
    client: Annotated[str | None, option("--client", help="only entries of this publisher", metavar="NAME")] = None,
    first: Annotated[str | None, option("--from", help="begin at this time, txid or bookmark", metavar="WHEN")] = None,
    last: Annotated[str | None, option("--to", help="end at this time, txid or bookmark", metavar="WHEN")] = None,
    txid: Annotated[str | None, option("--txid", help="only these txids: N or N:M", metavar="RANGE")] = None,
    limit: Annotated[
        str | None,
        option("--limit", "-l", help="the first M entries, or entries N to M as counted from 1", metavar="N:M"),
    ] = None,
    no_data: Annotated[bool, option("--no-data", help="leave out the payloads")] = False,
    format: Format = None,
    columns: Columns = None,
    output: Output = None,
    force: Force = False,
) -> int:
    """Print journal entries in the order in which they were written, as envelopes.

    The end is fixed when the command starts, so it ends even while others write.
    """
    txids, entries = _range("--txid", txid), _range("--limit", limit, only="last")
    from sowctl.cli.emit import Choice, Sink
    from sowctl.engine.journals import DumpOptions, dump

    sink = Sink(invocation, Choice(format, meta=True, columns=columns, output=output, force=force))
    options = DumpOptions(
        topic=topic,
        key=key,
        client=client,
        first=first,
        last=last,
        txids=txids,
        limit=entries,
        no_data=no_data,
    )
    with invocation.open_instance(*(files or ())) as instance:
        sink.write(dump(instance, files or [], options))
    return 0


def _range(name: str, text: str | None, only: str = "both") -> tuple[int, int] | None:
    """``N:M``; a lone ``M`` is M itself, or with ``only="last"`` 1 to M."""
    if text is None:
        return None
    low, colon, high = text.partition(":")
    if not (low.isdecimal() and (high.isdecimal() if colon else True)):
        raise UsageError("SOW-CLI-018", f"{name} {text!r} is not a range", hint="such as 10 or 1000:1010")
    if colon:
        return int(low), int(high)
    return (1 if only == "last" else int(low)), int(low)
