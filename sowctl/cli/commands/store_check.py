"""``sowctl store check``: verify the structure of stores, and a part of their data."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from sowctl.cli.context import Invocation
from sowctl.cli.parsing.options import Coverage, FindingsFormat, Targets
from sowctl.declarations import declare_option
from sowctl.errors import UsageError

EXAMPLES = (
    "sowctl store check",
    "sowctl store check orders --read-data 10%",
    "sowctl store check --for 30s --format json --summary json",
)


class StoreCheckArguments(Struct, frozen=True, kw_only=True):
    """Options and operands of ``sowctl store check``."""

    targets: Targets = None
    read_data: Annotated[
        str | None,
        declare_option(
            "--read-data", help="Read a part of the data: 10%, or 2/5 for the second of five parts.", metavar="HOW"
        ),
    ] = None
    period: Annotated[
        str | None,
        declare_option("--for", help="Read data for this TIME in total, shared by the stores.", metavar="TIME"),
    ] = None
    format: FindingsFormat = "text"
    summary: Coverage = None


def run(invocation: Invocation, arguments: StoreCheckArguments) -> int:
    """Verify the structure of stores and, if requested, a part of their data; report what was read.

    The structure consists of the branches of the trees of a store, its counts, and the use of every page (in use once,
    or free), which is about a hundredth of a file. --read-data and --for also read records and versions and verify
    their checksums, starting with those not read for the longest time, so regular checks of a part read the whole store
    over time. What was read when is recorded in a file beside the store. Damaged data is read again first.

    The summary at the end has the amount of data read, the amount that such checks have never read, and the age of the
    oldest read. Without TARGET, all topics are checked. sowctl journal check checks the journal; sowctl check reads
    every byte of both. The exit status is 5 if damage was found; for stores that cannot be read, it is that of sowctl
    check.
    """
    from sowctl.cli.io.report_output import show_examination
    from sowctl.cli.parsing.option_values import parse_interval
    from sowctl.engine.topics.targets import Target, resolve_targets
    from sowctl.engine.verbs.check import check_instance
    from sowctl.store.check import CheckScope

    share, part = _parse_amount(arguments.read_data)
    limit = parse_interval("--for", arguments.period)
    with invocation.open_instance(*(arguments.targets or ())) as instance:
        chosen = [target for text in arguments.targets or () for target in resolve_targets(instance, text)]
        if not arguments.targets:
            chosen = [Target(topic=topic) for topic in instance.topics]
        examination = check_instance(instance, chosen, CheckScope(instance.now, share, part, limit))
        show_examination(invocation, examination, format=arguments.format, summary=arguments.summary)
    return examination.status


def _parse_amount(text: str | None) -> tuple[float | None, tuple[int, int] | None]:
    """Return a share, or the number of a part and the count of parts."""
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
        "SOW-CLI-079", f"--read-data {text} is not a share", hint="give a percentage such as 10%, or a part such as 2/5"
    )
