"""The documents of each command with ``--json``, most of them derived from the report that the command prints.

The functions import the structs that they describe, so a page imports only its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from msgspec import Struct, UnsetType

from sowctl.cli.documents.shapes import Document, declare_object, derive_object, describe

Documents: TypeAlias = tuple[Document, ...]

_MESSAGE_TEXT = "Each element is a message: JSON as published; of other message types the JSON view."
_FIELD_PATH = describe(str, "Path of the field.")
_FINDING_KIND = describe(str | UnsetType, "Kind of the finding, where a code has several; see sow-queue(5).")
_ELEMENT_PATH = describe(str | None, "Element of the configuration.")
_STORED = describe(str, "Time at which the position was stored; ISO 8601, UTC with microseconds.")
_PUBLISHER: dict[str, Any] = {
    "client": str | UnsetType,
    "sequence": int | UnsetType,
    "expire_reason": str | UnsetType,
    "message_bookmark": str | UnsetType,
}
_COMPARISON: dict[str, Any] = {"before": Any | UnsetType, "after": Any | UnsetType}


def list_documents(command: str) -> Documents:
    """Return the documents of a command, the usual one first; none for a command without ``--json``."""
    build = _BUILDERS.get(command)
    return () if build is None else build()


def list_documented_commands() -> frozenset[str]:
    """Return the names of commands that have documents."""
    return frozenset(_BUILDERS)


def _envelope(**more: Any) -> type[Struct]:
    return declare_object(
        "Envelope",
        topic=str,
        message_type=str,
        sow_key=str | None,
        timestamp=str,
        expiration=str | None,
        txid=int | None,
        bookmark=str | None,
        correlation_id=str | None,
        **more,
        data=Any | UnsetType,
        data_base64=str | UnsetType,
    )


def _entry() -> type[Struct]:
    return _envelope(operation=str, **_PUBLISHER)


def _total(report: type[Struct], **changes: Any) -> type[Struct]:
    """Return the object of a report whose last row may be the total: without a topic, with the number of topics."""
    return derive_object(
        report,
        topic=describe(str | None, "Name of the topic; null in the last row, the total of several topics."),
        message_type=str | None,
        topics=describe(int | UnsetType, "Only in the total: number of topics."),
        **changes,
    )


def _records() -> Documents:
    return (
        Document("array", Any, text=_MESSAGE_TEXT),
        Document("array", _envelope(), "--meta"),
    )


def _publish() -> Documents:
    from sowctl.engine.reports import PublishReport

    return (
        Document("object", derive_object(PublishReport, ahead=str | None)),
        Document("lines", Any, "--tee", "Each is an acknowledged message, and the last one the report."),
    )


def _query() -> Documents:
    from sowctl.engine.reports import QueryStatistics
    from sowctl.engine.search.plan import Plan, PlanStep

    names = Plan.__struct_fields__
    executed = dict.fromkeys(names[names.index("keys") :])
    plan = derive_object(Plan, steps=list[derive_object(PlanStep)], **executed)  # type: ignore[misc]
    return (
        *_records(),
        Document("array", _total(QueryStatistics), "--count"),
        Document("array", plan, "--explain"),
        Document(
            "lines", Any, "--follow", "Each is a message: JSON as published; of other message types the JSON view."
        ),
    )


def _export() -> Documents:
    row = declare_object(
        "ExportReport",
        file=str,
        topics=list[str],
        records=int,
        bytes=int,
        inserted=int | UnsetType,
        updated=int | UnsetType,
        deleted=int | UnsetType,
        next_txid=int | UnsetType,
        next_bookmark=str | UnsetType,
        seconds=float,
    )
    return (Document("object", row),)


def _sql() -> Documents:
    return (Document("array", Any, text="Each element is an object with a member per column."),)


def _event() -> type[Struct]:
    return declare_object(
        "Event",
        command=str,
        topic=str | UnsetType,
        query_id=str | UnsetType,
        batch_size=int | UnsetType,
        sow_key=str | None | UnsetType,
        bookmark=str | None | UnsetType,
        txid=int | UnsetType,
        timestamp=str | UnsetType,
        reason=str | UnsetType,
        correlation_id=str | UnsetType,
        data=Any | UnsetType,
        data_base64=str | UnsetType,
    )


def _events() -> Documents:
    return (Document("lines", _event()),)


def _delete() -> Documents:
    from sowctl.engine.reports import DeleteReport

    return (Document("array", _total(DeleteReport)),)


def _expire() -> Documents:
    from sowctl.engine.reports import ExpireReport

    return (Document("array", _total(ExpireReport, now=str)),)


def _history() -> Documents:
    version: dict[str, Any] = {"sow_key": str, "timestamp": str, "until": str | None | UnsetType, "txid": int}
    version |= {"client": str | UnsetType, "operation": str | UnsetType, "lossy": bool | UnsetType}
    data = {"data": Any | UnsetType, "data_base64": str | UnsetType}
    field = declare_object("FieldChange", path=_FIELD_PATH, **_COMPARISON)
    difference: dict[str, Any] = {"change": str, "fields": list[field] | UnsetType, "data": Any | UnsetType}  # type: ignore[valid-type]
    more = {name: kind for name, kind in version.items() if name in ("until", "operation", "lossy")}
    return (
        Document("array", declare_object("Version", **version, **data)),
        Document("array", _envelope(**more, **_PUBLISHER), "--meta"),
        Document("array", declare_object("VersionChange", **version, **difference), "--diff"),
    )


def _blame() -> Documents:
    row = declare_object(
        "FieldOrigin",
        key=str,
        field=str,
        value=Any,
        timestamp=str,
        txid=int,
        client=str | None,
        sow_key=str,
        bookmark=str | None,
        correlation_id=str | None,
        earlier=bool,
    )
    return (Document("array", row),)


def _diff() -> Documents:
    field = declare_object("FieldChange", path=_FIELD_PATH, **_COMPARISON)
    fact = declare_object("MetadataChange", name=str, **_COMPARISON)
    change = declare_object(
        "Difference",
        topic=str,
        message_type=str,
        change=str,
        key=str,
        sow_key=str | None,
        fields=list[field] | UnsetType,  # type: ignore[valid-type]
        metadata=list[fact] | UnsetType,  # type: ignore[valid-type]
        data=Any | UnsetType,
    )
    counts = declare_object(
        "DifferenceCounts",
        topic=str,
        message_type=str,
        before=str,
        after=str,
        changed=int,
        added=int,
        removed=int,
        equal=int | None,
        fields=dict[str, int],
    )
    return Document("array", change), Document("array", counts, "--stat")


def _snapshot() -> Documents:
    from sowctl.engine.verbs.snapshot import SnapshotReport

    at = describe(str, "Instant of the state; ISO 8601, UTC with microseconds.")
    report = derive_object(SnapshotReport, at=at)
    return (
        *_records(),
        Document("object", report, "--output FILE.sow"),
        Document("array", report, "--to"),
    )


def _replay() -> Documents:
    from sowctl.engine.reports import ReplayReport

    return (Document("array", derive_object(ReplayReport)),)


def _info() -> Documents:
    from sowctl.engine.reports import TopicInfo

    return (Document("array", derive_object(TopicInfo, last_update=str | None)),)


def _schema() -> Documents:
    from sowctl.engine.verbs.inspect.schema import PathFacts

    facts = derive_object(PathFacts, path=_FIELD_PATH, items=list[int] | None)
    members = {name: facts.__annotations__[name] for name in facts.__struct_fields__}
    return (Document("array", declare_object("PathFacts", topic=str, message_type=str, **members)),)


def _stats() -> Documents:
    from sowctl.engine.profile.number_profile import HistogramBar
    from sowctl.engine.profile.tally import FrequentValue
    from sowctl.engine.verbs.inspect.stats import FieldFacts, NumberFacts

    bars, frequent = derive_object(HistogramBar), derive_object(FrequentValue, value=Any)
    numbers = derive_object(NumberFacts, histogram=list[bars])  # type: ignore[valid-type]
    facts = derive_object(FieldFacts, path=_FIELD_PATH, numbers=numbers | None, top=list[frequent])  # type: ignore[valid-type]
    members = {name: facts.__annotations__[name] for name in facts.__struct_fields__}
    rates = declare_object(
        "MessageRates",
        topic=str,
        message_type=str,
        client=str | None,
        messages=int,
        bytes=int,
        messages_rate=float,
        bytes_rate=float,
        peak=int,
        begin=str | None,
        interval_seconds=float,
        counts=list[int],
    )
    return (
        Document("array", declare_object("FieldFacts", topic=str, message_type=str, **members)),
        Document("array", rates, "--journal"),
    )


def _hash() -> Documents:
    from sowctl.engine.sources.digest import CombinedDigest, Digest

    return (
        Document("object", derive_object(Digest)),
        Document("object", derive_object(CombinedDigest), "--all"),
    )


def _key() -> Documents:
    from sowctl.engine.verbs.key import MessageKey

    return (Document("array", derive_object(MessageKey)),)


def _eval() -> Documents:
    return (
        Document("array", Any, text="Each element is the value for a message, in the order of the messages."),
        Document("array", Any, "--filter", _MESSAGE_TEXT),
    )


def _functions() -> Documents:
    from sowctl.expressions.functions.table import FunctionEntry

    return (Document("array", derive_object(FunctionEntry, call=str)),)


def _view_info(**more: Any) -> type[Struct]:
    from sowctl.engine.verbs.view import ViewInfo

    return derive_object(ViewInfo, made=str | None, refreshed=str | None, **more)


def _view_list() -> Documents:
    return (Document("array", _view_info()),)


def _view_show() -> Documents:
    from sowctl.engine.verbs.view import ViewDefinition

    return (Document("object", _view_info(definition=derive_object(ViewDefinition))),)


def _view_refresh() -> Documents:
    from sowctl.engine.verbs.view import RefreshReport

    return (Document("array", derive_object(RefreshReport)),)


def _view_check() -> Documents:
    from sowctl.engine.verbs.view import ViewCheck

    return (Document("array", derive_object(ViewCheck, state=str)),)


def _conflate() -> Documents:
    from sowctl.engine.verbs.conflate import ConflateReport

    report = derive_object(ConflateReport)
    return Document("array", report), Document("lines", report, "--follow")


_PLACE: dict[str, Any] = {"client": str, "sub_id": str, "bookmark": str}


def _place() -> Documents:
    return (
        Document(
            "object",
            declare_object(
                "Position",
                **_PLACE,
                stored=describe(str | None, "Time at which it was stored; null for an unknown subscription."),
            ),
        ),
    )


def _places() -> Documents:
    return (Document("array", declare_object("Position", **_PLACE, stored=_STORED)),)


def _bookmark_list() -> Documents:
    lag: dict[str, Any] = {"entries": int | None, "bytes": int | None, "seconds": float | None}
    found: dict[str, Any] = {"publisher": str | None, "txid": int | None, "logged": str | None}
    return (Document("array", declare_object("Position", **_PLACE, stored=_STORED, **found, **lag)),)


def _bookmark_check() -> Documents:
    return (
        Document("array", declare_object("PositionCheck", **_PLACE, state=str, txid=int | None, problem=str | None)),
    )


def _queue_info() -> type[Struct]:
    from sowctl.engine.queues.reports import Depth, HolderInfo, QueueInfo

    depth = derive_object(Depth)
    holder = derive_object(HolderInfo, started=str, seen=str)
    changes: dict[str, Any] = {"created": str | None, "oldest": str | None, "holders": list[holder]}  # type: ignore[valid-type]
    rest = derive_object(QueueInfo, depth=None, **changes)
    members = {name: one.__annotations__[name] for one in (depth, rest) for name in one.__struct_fields__}
    return declare_object("QueueInfo", **members)


def _queue_depth() -> Documents:
    from sowctl.engine.queues.reports import Depth

    return (Document("object", derive_object(Depth)),)


_PEEKED: dict[str, Any] = {
    "state": str | UnsetType,
    "topic": str,
    "txid": int,
    "timestamp": str,
    "expiration": str | None | UnsetType,
    "bookmark": str,
    "token": str | UnsetType,
    "lease_until": str | None | UnsetType,
    "until": str | None | UnsetType,
    "holder": str | None | UnsetType,
    "deliveries": int | UnsetType,
    "cancels": int | UnsetType,
    "priority": int | float | None | UnsetType,
    "barrier": bool | UnsetType,
    "reason": str | UnsetType,
    "exit_status": int | UnsetType,
    "stderr": str | UnsetType,
    "data": Any | UnsetType,
    "data_base64": str | UnsetType,
}


def _queue_messages() -> Documents:
    return (Document("array", declare_object("QueueMessage", **_PEEKED)),)


def _queue_run() -> Documents:
    from sowctl.engine.queues.worker import WorkReport

    return (Document("object", derive_object(WorkReport)),)


def _outcomes() -> Documents:
    return (Document("array", declare_object("Outcome", bookmark=str, outcome=str)),)


def _queue_purge() -> Documents:
    row = declare_object("PurgeReport", queue=str, message_type=str, removed=int, removed_dead=int)
    return (Document("object", row),)


def _journal_list() -> Documents:
    from sowctl.journal.block import FileInfo

    return (Document("array", derive_object(FileInfo, path=str, created=str)),)


def _entries() -> Documents:
    return (Document("array", _entry()),)


def _followed_entries() -> Documents:
    return Document("array", _entry()), Document("lines", _entry(), "--follow")


def _findings(**facts: Any) -> type[Struct]:
    finding = declare_object(
        "Finding",
        rule=str,
        severity=str,
        file=str | None,
        line=int | None,
        column=int | None,
        path=_ELEMENT_PATH,
        message=str,
        hint=str | None,
        offset=int | UnsetType,
        kind=_FINDING_KIND,
        excerpt=str | UnsetType,
    )
    return declare_object(
        "Findings",
        findings=list[finding],  # type: ignore[valid-type]
        **facts,
        errors=int,
        warnings=int,
        notes=int,
    )


def _check() -> Documents:
    from sowctl.engine.reports import CheckReport

    facts = derive_object(CheckReport, oldest_read=str | None)
    return (Document("object", _findings(**facts.__annotations__)),)


def _journal_check() -> Documents:
    from sowctl.engine.reports import JournalCheckReport

    return (Document("object", _findings(**derive_object(JournalCheckReport).__annotations__)),)


def _validate() -> Documents:
    return (Document("object", _findings(files=int)),)


def _lint() -> Documents:
    rule: dict[str, Any] = {"rule": str, "code": str | None, "severity": str, "title": str, "path": _ELEMENT_PATH}
    return (
        *_validate(),
        Document("array", declare_object("Rule", **rule), "--list"),
        Document("object", declare_object("RulePage", **rule, text=str), "--explain"),
    )


def _store_repair() -> Documents:
    from sowctl.engine.reports import RepairItem

    return (
        Document("array", derive_object(RepairItem, sow_key=str | None, first_key=str | None, last_key=str | None)),
    )


def _store_clean() -> Documents:
    from sowctl.engine.reports import CleanReport

    return (Document("array", derive_object(CleanReport)),)


def _store_compact() -> Documents:
    from sowctl.engine.reports import CompactReport

    return (Document("array", _total(CompactReport, action=str | None)),)


def _store_reindex() -> Documents:
    from sowctl.engine.reports import ReindexReport

    return (Document("array", derive_object(ReindexReport)),)


def _journal_repair() -> Documents:
    from sowctl.journal.maintenance.repair import RepairedGap

    gap = derive_object(RepairedGap, first_txid=int | None, last_txid=int | None)
    members = {name: gap.__annotations__[name] for name in gap.__struct_fields__}
    return (Document("array", declare_object("RepairedGap", what=str, **members, dry_run=bool)),)


def _journal_compress() -> Documents:
    from sowctl.engine.maintenance.retention.compression import CompressedFile

    return (Document("array", derive_object(CompressedFile)),)


def _journal_rotate() -> Documents:
    row = declare_object(
        "RotatedFile",
        rotated=bool,
        number=int | UnsetType,
        path=str | UnsetType,
        next_path=str | UnsetType,
        size=int | UnsetType,
        first_txid=int | UnsetType,
        last_txid=int | None | UnsetType,
        dry_run=bool | UnsetType,
    )
    return (Document("object", row),)


def _journal_archive() -> Documents:
    from sowctl.engine.maintenance.retention.archive import ArchivedFile

    return (Document("array", derive_object(ArchivedFile, archived=str)),)


def _journal_prune() -> Documents:
    from sowctl.engine.maintenance.retention.prune import PrunedFile

    return (Document("array", derive_object(PrunedFile)),)


def _backup() -> Documents:
    from sowctl.engine.verbs.upkeep.backup import BackupReport, BackupRow

    return Document("object", derive_object(BackupReport)), Document("array", derive_object(BackupRow), "--list")


def _restore() -> Documents:
    from sowctl.engine.verbs.upkeep.restore import RestoreReport

    return (Document("object", derive_object(RestoreReport)),)


def _upkeep_run() -> Documents:
    step: dict[str, Any] = {"action": int, "name": str, "step": str, "outcome": str}
    return (Document("array", declare_object("ActionStep", **step, files=int, bytes=int, records=int)),)


def _upkeep_list() -> Documents:
    row = declare_object(
        "PlannedAction",
        action=int,
        name=str,
        schedule=str,
        last=str | None,
        next=str | None,
        due=bool,
        steps=str,
        problem=str | None,
    )
    return (Document("array", row),)


def _job() -> Documents:
    from sowctl.spark.jobs.report import JobReport

    return (Document("object", derive_object(JobReport, details=dict[str, Any])),)


def _stream_job() -> Documents:
    text = "Each is a message, or a deletion with topic, sow_key, txid and operation, and the last one the report."
    return (*_job(), Document("lines", Any, "--console", text))


def _config_show() -> Documents:
    return (Document("object", Any, text="The members are the elements of the configuration, nested as in the file."),)


def _config_diff() -> Documents:
    sides = ("before", "after", "before_origin", "after_origin")
    row = declare_object("MemberChange", change=str, path=_ELEMENT_PATH, **dict.fromkeys(sides, str | UnsetType))
    return (Document("array", row),)


def _config_schema() -> Documents:
    row = declare_object(
        "ElementFacts",
        path=_ELEMENT_PATH,
        element=str,
        times=str,
        value=str,
        effect=str,
        meaning=str,
        values=list[str] | UnsetType,
        default=Any | UnsetType,
        unit=str | UnsetType,
        minimum=int | float | str | UnsetType,
        maximum=int | float | str | UnsetType,
        synonyms=list[str] | UnsetType,
        retired=bool | UnsetType,
    )
    return (Document("array", row),)


def _config_init() -> Documents:
    topic = declare_object("NewTopic", topic=str, message_type=str, keys=list[str])
    row = declare_object("NewConfiguration", path=str, name=str, journal=str | None, topics=list[topic])  # type: ignore[valid-type]
    return (Document("object", row),)


def _config_add() -> Documents:
    element = declare_object(
        "NewElement",
        section=describe(str, "Element around the new one."),
        line=describe(int, "Its first line in the file."),
        xml=str,
    )
    row = declare_object(
        "ConfigurationChange",
        path=str,
        written=describe(bool, "False with --dry-run."),
        new_elements=list[element],  # type: ignore[valid-type]
    )
    return (Document("object", row),)


def _doctor() -> Documents:
    check = declare_object("Check", name=str, state=str, detail=str, hint=str | None)
    return (Document("object", declare_object("Checks", ok=bool, checks=list[check])),)  # type: ignore[valid-type]


def _demo() -> Documents:
    report = _publish()[0].element
    return (Document("object", declare_object("Demo", path=str, reports=list[report])),)  # type: ignore[valid-type]


def _explain() -> Documents:
    row = declare_object(
        "CodePage", code=str, exit=int | None, title=str, why=str, action=str, page=str, rule=str | None
    )
    return (Document("array", row),)


_BUILDERS: dict[str, Callable[[], Documents]] = {
    "publish": _publish,
    "query": _query,
    "export": _export,
    "get": _records,
    "sql": _sql,
    "subscribe": _events,
    "tail": _events,
    "delete": _delete,
    "expire": _expire,
    "history": _history,
    "blame": _blame,
    "diff": _diff,
    "snapshot": _snapshot,
    "replay": _replay,
    "info": _info,
    "schema": _schema,
    "stats": _stats,
    "hash": _hash,
    "key": _key,
    "eval": _eval,
    "functions": _functions,
    "view list": _view_list,
    "view show": _view_show,
    "view refresh": _view_refresh,
    "view check": _view_check,
    "conflate": _conflate,
    "bookmark list": _bookmark_list,
    "bookmark get": _place,
    "bookmark set": _place,
    "bookmark rewind": _places,
    "bookmark check": _bookmark_check,
    "bookmark purge": _places,
    "queue list": lambda: (Document("array", _queue_info()),),
    "queue info": lambda: (Document("array", _queue_info()),),
    "queue depth": _queue_depth,
    "queue peek": _queue_messages,
    "queue lease": _queue_messages,
    "queue run": _queue_run,
    "queue ack": _outcomes,
    "queue cancel": _outcomes,
    "queue renew": _outcomes,
    "queue expire": _outcomes,
    "queue requeue": _outcomes,
    "queue purge": _queue_purge,
    "journal list": _journal_list,
    "journal dump": _entries,
    "journal tail": _followed_entries,
    "journal search": _entries,
    "journal bisect": _entries,
    "check": _check,
    "store check": _check,
    "store repair": _store_repair,
    "store clean": _store_clean,
    "store compact": _store_compact,
    "store reindex": _store_reindex,
    "journal repair": _journal_repair,
    "journal rotate": _journal_rotate,
    "journal compress": _journal_compress,
    "journal archive": _journal_archive,
    "journal prune": _journal_prune,
    "journal check": _journal_check,
    "backup": _backup,
    "restore": _restore,
    "upkeep run": _upkeep_run,
    "upkeep list": _upkeep_list,
    "pipeline load": _job,
    "pipeline rebuild": _job,
    "pipeline snapshot": _job,
    "pipeline view": _job,
    "pipeline export": _job,
    "pipeline stream": _stream_job,
    "validate": _validate,
    "lint": _lint,
    "config show": _config_show,
    "config diff": _config_diff,
    "config init": _config_init,
    **dict.fromkeys(
        (f"config add {kind}" for kind in ("topic", "view", "queue", "expiration", "history")), _config_add
    ),
    "config schema": _config_schema,
    "doctor": _doctor,
    "demo": _demo,
    "explain": _explain,
}
