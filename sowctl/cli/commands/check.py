"""``sowctl check``: verify every byte of stores and journals."""

from __future__ import annotations

from msgspec import Struct

from sowctl.cli.context import Invocation
from sowctl.cli.parsing.options import Coverage, FindingsFormat, Targets

EXAMPLES = (
    "sowctl check",
    "sowctl check orders --format json --summary json",
)


class CheckArguments(Struct, frozen=True, kw_only=True):
    """Options and operands of ``sowctl check``."""

    targets: Targets = None
    format: FindingsFormat = "text"
    summary: Coverage = None


def run(invocation: Invocation, arguments: CheckArguments) -> int:
    """Read every byte of the stores and journals and report damaged, missing or inconsistent data.

    The summary at the end has the amount of data read and what was not verified. The exit status is 5 if damage was
    found; otherwise 8 if a store belongs to another topic or has keys of another definition; otherwise, if a store
    could not be read, that of the error: 6 for permissions, 11 for a lock. All other files are still checked. Read
    permission on all files is sufficient, as on a read-only mount: the exit status is 0 if no problem is found.
    """
    from sowctl.cli.io.report_output import show_examination
    from sowctl.engine.topics.targets import resolve_targets
    from sowctl.engine.verbs.check import check_instance

    with invocation.open_instance(*(arguments.targets or ())) as instance:
        chosen = [target for text in arguments.targets or () for target in resolve_targets(instance, text)]
        examination = check_instance(instance, chosen if arguments.targets else None)
        show_examination(invocation, examination, format=arguments.format, summary=arguments.summary)
    return examination.status
