"""``sowctl check``: every byte, read and compared."""

from __future__ import annotations

from sowctl.cli.context import Invocation
from sowctl.cli.words.options import Coverage, FindingsFormat, Targets

EXAMPLES = (
    "sowctl check",
    "sowctl check orders --format json --summary json",
)


def run(
    invocation: Invocation,
    targets: Targets = None,
    format: FindingsFormat = "text",
    summary: Coverage = None,
) -> int:
    """Read every byte of the stores and journals and report what is damaged, missing or inconsistent.

    Says at the end how much was read, and what was not verified. Ends with status 5 where damage was found; where there
    was none but a store is another topic's, or has the keys of another definition, with 8; where one could not be read,
    with the status of that: 6 for permission, 11 for a lock. The rest is checked all the same. Read permission on all
    files is enough, as on a read-only mount: the status is 0 there if all is sound.
    """
    from sowctl.cli.io.reporting import show_examination
    from sowctl.engine.topics.targets import resolve
    from sowctl.engine.verbs.check import check

    with invocation.open_instance(*(targets or ())) as instance:
        chosen = [target for text in targets or () for target in resolve(instance, text)]
        examination = check(instance, chosen if targets else None)
        show_examination(invocation, examination, as_json=format == "json", summary=summary)
    return examination.status
