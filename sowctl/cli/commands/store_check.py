"""``sowctl store check``: the structure of stores, and a part of their data."""

from __future__ import annotations

from typing import Annotated

from sowctl.cli.context import Invocation
from sowctl.cli.words.declare import option
from sowctl.cli.words.options import Coverage, FindingsFormat, Targets
from sowctl.errors import UsageError

EXAMPLES = (
    "sowctl store check",
    "sowctl store check orders --read-data 10%",
    "sowctl store check --for 30s --format json --summary json",
)


def run(
    invocation: Invocation,
    targets: Targets = None,
    read_data: Annotated[
        str | None,
        option("--read-data", help="read so much of the data: 10%, or 2/5 for the second of five parts", metavar="HOW"),
    ] = None,
    period: Annotated[
        str | None, option("--for", help="read data for so long, shared by the stores", metavar="TIME")
    ] = None,
    format: FindingsFormat = "text",
    summary: Coverage = None,
) -> int:
    """Verify the structure of stores, and of their data as much as you ask for; say what was read and what was not.

    The structure are the branches of a store's trees, its counts, and that every page is in use once or free; that is
    a hundredth of a file. With --read-data or --for, records and versions are read besides and their checksums
    verified: those first that were not read for longest, so that a check every night reads all of a store in so many
    nights. Beside the store a record is kept of what was read when. What was damaged is read again first.

    Says at the end how much was read now, how much such checks have never read, and since when the rest. Without TARGET
    all topics are taken; the journal is checked by sowctl journal check, and both, every byte, by sowctl check. Ends
    with status 5 where damage was found, and as sowctl check where a store could not be read.
    """
    from sowctl.cli.io.reporting import show_examination
    from sowctl.cli.words.when import seconds
    from sowctl.engine.topics.targets import Target, resolve
    from sowctl.engine.verbs.check import check
    from sowctl.store.check import Reading

    share, part = _amount(read_data)
    limit = seconds("--for", period)
    with invocation.open_instance(*(targets or ())) as instance:
        chosen = [target for text in targets or () for target in resolve(instance, text)]
        if not targets:
            chosen = [Target(topic=topic) for topic in instance.topics]
        examination = check(instance, chosen, Reading(instance.now, share, part, limit))
        show_examination(invocation, examination, as_json=format == "json", summary=summary)
    return examination.status


def _amount(text: str | None) -> tuple[float | None, tuple[int, int] | None]:
    """A share, or a part of so many."""
    if text is None:
        return None, None
    number, slash, count = text.partition("/")
    try:
        if slash:
            part = int(number), int(count)
            if 1 <= part[0] <= part[1]:
                return None, part
        elif text.endswith("%") and 0 <= float(text[:-1]) <= 100:
            return float(text[:-1]) / 100, None
    except ValueError:
        pass
    raise UsageError(
        "SOW-CLI-079", f"--read-data {text}: this is no share", hint="give a percentage, 10%, or a part, 2/5"
    )
