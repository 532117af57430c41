"""Whether a store says what the journals say: built anew aside, up to where it stands, and digests compared.

Called by :mod:`sowctl.engine.replay`, which then only compares. Ruled by ``sow-store(5)``, Digest, and
``sowctl-replay(1)``, --verify.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from sowctl.engine.digest import digest
from sowctl.engine.rebuild import Rebuilt, rebuild
from sowctl.engine.reports import ReplayReport
from sowctl.engine.targets import Target
from sowctl.errors import DamageError, MissingError, UsageError

if TYPE_CHECKING:
    from sowctl.config.model import TopicConfig
    from sowctl.engine.instance import Instance
    from sowctl.engine.options import ReplayOptions
    from sowctl.journal.reader import Journal


def verify(instance: Instance, log: Journal, topic: TopicConfig, options: ReplayOptions) -> ReplayReport:
    """Build the store aside, up to where the live one stands, and compare digests at one clock.

    Raises UsageError ``SOW-RPL-005`` for an instant to stop at, and DamageError where the journal is damaged.
    """
    import tempfile

    now = instance.now
    frozen = replace(instance, clock=lambda: now)
    if options.until_txid is not None or options.until_time is not None:
        raise UsageError("SOW-RPL-005", "--verify compares the present state; it takes no --until")
    if topic.file is None:
        return ReplayReport.of(topic, "skipped", note="the topic is transient: it has no file")
    if not topic.file.exists():
        if log.topic_state((topic.name, topic.message_type)).last_txid == 0:
            return ReplayReport.of(topic, "skipped", note="nothing was ever published")
        return ReplayReport.of(topic, "differs", note="the store is missing")
    try:
        live = digest(frozen, Target(topic=topic))
    except (MissingError, DamageError) as error:
        return ReplayReport.of(topic, "differs", note=error.message)
    with tempfile.TemporaryDirectory(prefix="sowctl-") as place:
        aside = replace(topic, file=Path(place) / "verify.sow")
        built = rebuild(frozen, log, [aside], until=live.txid)[0]
        quiet = replace(aside, journalled=False)
        other = digest(frozen, Target(topic=quiet))
    same = other.digest == live.digest
    note = live.note if not same else None
    return (
        built.report("verified" if same else "differs", note=note)
        if same
        else _differs(built, live.digest, other.digest, note)
    )


def _differs(built: Rebuilt, live: str, other: str, note: str | None) -> ReplayReport:
    report = built.report("differs", note=note)
    report.digest, report.other_digest = live, other
    return report
