"""The table of all rules: id, level, title, element, and the functions that check it, if functions do.

In the order of the ids, by family; :mod:`sowctl.config.rules.rule` describes the columns and how to add a row. A row
without checks belongs to the loader (X), to the element table (S, D), or to the check of expressions and regular
expressions (:mod:`sowctl.config.expression_texts`: S035, S036, S038, S063, F015 to F018). The advice is in
:mod:`sowctl.config.rules.table_advice`. Ruled by ``sow-config(5)``; shown by ``lint --list`` and sowctl-lint(7).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from sowctl.config.problems import (
    NO_STAND_IN_CODE,
    TOO_DEEP_CODE,
    TOO_LARGE_CODE,
    TOO_MANY_CODE,
    UNKNOWN_WORD_CODE,
    UNREADABLE_CODE,
    UNUSED_WORD_CODE,
    find_error_code,
)
from sowctl.config.rules.load_rules import LOAD_RULES
from sowctl.config.rules.rule import Rule
from sowctl.config.rules.table_advice import ADVICE_RULES
from sowctl.errors import UsageError
from sowctl.findings import Level

_E, _W, _I = Level.ERROR, Level.WARNING, Level.INFO

_XML: tuple[Rule, ...] = (
    Rule("X001", _E, "not-well-formed", "the file"),
    Rule("X002", _E, "external-entity", "the document type"),
    Rule("X003", _E, "entity-expansion", "the document type"),
    Rule("X004", _E, "internal-entity", "the document type"),
    Rule("X005", _E, "wrong-root", "AMPSConfig"),
    Rule("X006", _E, "include-unreadable", "Include"),
    Rule("X007", _E, "include-cycle", "Include"),
    Rule("X008", _E, "expanded-too-large", "Include"),
    Rule("X009", _E, "undefined-variable", "any text"),
    Rule("X010", _I, "built-in-variable", "any text"),
    Rule("X011", _W, "stray-text", "any section"),
    Rule("X012", _W, "unexpected-attribute", "any element"),
    Rule("X013", _W, "include-comment-value", "Include"),
    Rule("X014", _E, "invalid-encoding", "the file"),
    Rule("X015", _W, "namespace", "any element"),
    Rule("X016", _W, "relative-include", "Include"),
    Rule("X017", _I, "byte-order-or-line-ends", "the file"),
)

_STRUCTURE: tuple[Rule, ...] = (
    Rule("S001", _E, "misplaced-element", "any element"),
    Rule("S002", _E, "unknown-element", "any element", (("Action", "actions.unknown_option"),), also=_W),
    Rule("S003", _E, "element-repeated", "any element"),
    Rule("S004", _E, "instance-name-missing", "Name"),
    Rule("S005", _E, "transport-name-missing", "Transports/Transport"),
    Rule("S006", _E, "transport-type-missing", "Transports/Transport"),
    Rule(
        "S007", _E, "transport-address-missing", "Transports/Transport", (("Transport", "transport.address_missing"),)
    ),
    Rule(
        "S008", _E, "transport-protocol-missing", "Transports/Transport", (("Transport", "transport.protocol_missing"),)
    ),
    Rule("S009", _E, "empty-element", "any element"),
    Rule("S010", _E, "unknown-transport-type", "Transports/Transport/Type"),
    Rule("S011", _E, "not-an-address", "InetAddr"),
    Rule("S012", _E, "certificate-missing", "Transports/Transport", (("Transport", "transport.certificate_missing"),)),
    Rule("S013", _E, "socket-missing", "Transports/Transport", (("Transport", "transport.socket_missing"),)),
    Rule("S014", _E, "nothing-to-verify", "Transports/Transport", (("Transport", "transport.nothing_to_verify"),)),
    Rule("S015", _E, "unknown-secure-protocol", "SecureSocketProtocols"),
    Rule("S020", _E, "entry-name-missing", "SOW"),
    Rule("S021", _E, "entry-type-missing", "SOW"),
    Rule("S023", _E, "unknown-durability", "SOW/Topic/Durability"),
    Rule("S024", _E, "not-a-recovery-point", "RecoveryPoint"),
    Rule("S025", _E, "not-an-expiration", "Expiration"),
    Rule("S026", _E, "not-an-interval", "any interval", (("Action", "actions.not_an_interval"),), also=_W),
    Rule("S027", _E, "not-a-size", "any size"),
    Rule("S028", _E, "not-a-count", "any count", (("MessageType", "messagetypes.equals_sign"),)),
    Rule("S029", _E, "not-a-switch", "any switch"),
    Rule("S030", _E, "history-incomplete", "SOW/Topic/History"),
    Rule("S031", _E, "hash-index-empty", "HashIndex"),
    Rule("S032", _E, "fields-missing", "Preprocessing, Enrichment"),
    Rule("S033", _E, "generator-module-missing", "SOW/Topic/KeyGenerator"),
    Rule("S034", _E, "not-a-field", "Key, Index, Grouping/Field"),
    Rule(
        "S035",
        _E,
        "filter-does-not-parse",
        "Filter, Priority, BarrierExpression",
        (("Action", "actions.filter_does_not_parse"),),
    ),
    Rule("S036", _E, "field-does-not-parse", "Field"),
    Rule("S037", _E, "view-incomplete", "SOW/View"),
    Rule("S038", _E, "not-a-join", "SOW/View/UnderlyingTopic/Join"),
    Rule("S039", _E, "conflated-source-missing", "SOW/ConflatedTopic"),
    Rule("S040", _E, "slab-too-large", "SOW/Topic/SlabSize"),
    Rule("S041", _E, "slab-count-range", "SOW/Topic/InitialSlabCount"),
    Rule("S042", _E, "conflation-too-short", "SOW/ConflatedTopic/Interval"),
    Rule("S043", _E, "flush-interval-range", "TransactionLog/FlushInterval"),
    Rule("S044", _W, "journal-too-small", "TransactionLog/JournalSize"),
    Rule("S045", _E, "target-depth-too-small", "SOW/Queue/TargetQueueDepth"),
    Rule("S046", _E, "no-preallocated-journal", "TransactionLog/PreallocatedJournalFiles"),
    Rule("S047", _E, "unknown-semantics", "SOW/Queue/Semantics"),
    Rule("S048", _E, "unknown-model", "SOW/Queue, SOW/View"),
    Rule("S049", _E, "metadata-not-enabled", "SOW/Queue/FileBackedMetadata"),
    Rule(
        "S050",
        _E,
        "composite-without-parts",
        "MessageTypes/MessageType",
        (("MessageType", "messagetypes.composite_without_parts"),),
    ),
    Rule(
        "S051",
        _E,
        "protobuf-incomplete",
        "MessageTypes/MessageType",
        (("MessageType", "messagetypes.protobuf_incomplete"),),
    ),
    Rule("S052", _E, "not-a-struct-field", "MessageTypes/MessageType/Field"),
    Rule(
        "S053",
        _E,
        "struct-without-fields",
        "MessageTypes/MessageType",
        (("MessageType", "messagetypes.struct_without_fields"),),
    ),
    Rule("S054", _E, "module-incomplete", "Modules/Module"),
    Rule("S055", _E, "action-incomplete", "Actions/Action"),
    Rule("S056", _E, "unknown-action-module", "Actions/Action", (("Action", "actions.unknown_module"),)),
    Rule("S057", _E, "action-option-missing", "Actions/Action", (("Action", "actions.option_missing"),)),
    Rule("S058", _E, "not-a-schedule", "Actions/Action/On", (("Action", "actions.not_a_schedule"),)),
    Rule("S059", _E, "not-a-percentage", "Actions/Action/If", (("Action", "actions.not_a_percentage"),)),
    Rule("S060", _E, "log-without-file", "Logging/Target", (("Target", "service.log_without_file"),)),
    Rule("S061", _E, "unknown-log-level", "Logging/Target"),
    Rule("S062", _E, "unknown-log-protocol", "Logging/Target/Protocol"),
    Rule("S063", _E, "not-a-regex", "any pattern of names", (("Action", "actions.not_a_regex"),)),
    Rule("S064", _E, "journal-directory-missing", "TransactionLog"),
    Rule("S065", _E, "journal-topic-incomplete", "TransactionLog/Topic"),
    Rule("S066", _E, "function-incomplete", "UserDefinedFunctions/Function"),
    Rule("S067", _E, "not-a-file-mask", "MiniDumpFileMask, FileMask"),
    Rule("S068", _E, "capacity-range", "ClientMaxCapacity"),
    Rule(
        "S069",
        _E,
        "destination-incomplete",
        "Replication/Destination",
        (("Destination", "replication.destination_incomplete"),),
    ),
    Rule("S070", _E, "validation-not-excludable", "Replication/Destination/Topic/ExcludeValidation"),
    Rule("S071", _E, "admin-interval-too-short", "Admin/Interval"),
    Rule("S072", _E, "direct-io-value", "TransactionLog/O_DIRECT"),
    Rule("S073", _E, "queue-flush-too-short", "Tuning/Queue/QueueDeliveryFlushInterval"),
    Rule("S074", _E, "unknown-compliance", "MessageTypes/MessageType/AMPSVersionCompliance"),
    Rule("S075", _E, "children-in-text", "any element with a value"),
    Rule("S076", _W, "lifetime-beyond-dates", "SOW/Topic/Expiration", (("Topic", "topic.lifetime_beyond_dates"),)),
)

_FIELDS: tuple[Rule, ...] = (
    Rule("F005", _E, "no-fields", "SOW", (("Entries", "fields.no_fields"), ("View", "fields.binary_source"))),
    Rule("F006", _E, "filter-with-join", "SOW/View/Filter", (("View", "view.filter_with_join"),)),
    Rule("F007", _E, "priority-and-barrier", "SOW/Queue", (("Queues", "queue.priority_and_barrier"),)),
    Rule(
        "F008", _E, "target-depth-excludes", "SOW/Queue/TargetQueueDepth", (("Queues", "queue.target_depth_excludes"),)
    ),
    Rule("F009", _E, "owner-missing", "SOW/GroupLocalQueue", (("GroupLocalQueue", "queue.owner_missing"),)),
    Rule("F010", _E, "owner-elsewhere", "SOW/Queue, SOW/LocalQueue", (("Queues", "queue.owner_elsewhere"),)),
    Rule("F011", _E, "publish-target-missing", "SOW/Queue", (("Queues", "queue.publish_target_missing"),)),
    Rule("F012", _E, "unfair", "SOW/Queue/FairnessModel", (("Queues", "queue.unfair"),)),
    Rule("F013", _W, "lease-without-effect", "SOW/Queue", (("Queues", "queue.lease_without_effect"),)),
    Rule("F014", _E, "topic-format", "SOW/ConflatedTopic", (("ConflatedTopic", "view.topic_format"),)),
    Rule("F015", _E, "previous-unavailable", "Field"),
    Rule("F016", _E, "qualifier-unavailable", "Preprocessing, Enrichment, Filter"),
    Rule("F017", _E, "aggregate-unavailable", "any expression outside a Projection"),
    Rule("F018", _E, "not-deterministic", "Filter, BarrierExpression, Projection"),
    Rule("F019", _E, "lookup-unavailable", "Field", (("Topic", "fields.lookup_unavailable"),)),
    Rule("F020", _E, "not-an-output-type", "SOW/View/MessageType", (("View", "view.not_an_output_type"),)),
    Rule("F021", _E, "not-enriched", "SOW/Topic", (("Entries", "fields.not_enriched"),)),
    Rule("F022", _E, "cross-type-unqualified", "SOW/View", (("View", "view.cross_type_unqualified"),), also=_W),
    Rule("F023", _E, "legacy-without-type", "Transports/Transport", (("Transport", "transport.legacy_without_type"),)),
    Rule("F024", _E, "several-replication", "Transports/Transport", (("AMPSConfig", "transport.several_replication"),)),
    Rule(
        "F025",
        _E,
        "local-queue-replicated",
        "Replication/Destination",
        (("Destination", "replication.local_queue_replicated"),),
    ),
    Rule(
        "F026",
        _W,
        "challenge-without-authentication",
        "Admin/WWWAuthenticate",
        (("Admin", "service.challenge_without_authentication"),),
    ),
    Rule("F027", _E, "event-or-variable", "Actions/Action/Do", (("Action", "actions.event_or_variable"),)),
    Rule("F028", _E, "compact-topic-and-type", "Actions/Action/Do", (("Action", "actions.compact_topic_and_type"),)),
    Rule(
        "F029",
        _I,
        "recovery-without-journal",
        "SOW/Topic/RecoveryPoint",
        (("Topic", "topic.recovery_without_journal"),),
    ),
    Rule(
        "F030",
        _W,
        "archive-is-journal",
        "TransactionLog/JournalArchiveDirectory",
        (("TransactionLog", "service.archive_is_journal"),),
        also=_E,
    ),
    Rule(
        "F031", _E, "archive-without-directory", "Actions/Action/Do", (("Action", "targets.archive_without_directory"),)
    ),
    Rule("F032", _E, "version-needed", "RequiredMinimumVersion", (("AMPSConfig", "service.version_needed"),), also=_W),
    Rule("F034", _E, "join-and-text", "SOW/View/UnderlyingTopic", (("View", "view.join_and_text"),)),
    Rule("F035", _E, "grouping-not-plain", "SOW/View/Grouping/Field"),
    Rule("F036", _E, "join-unqualified", "SOW/View", (("View", "view.join_unqualified"),)),
    Rule("F037", _W, "key-enriched", "SOW/Topic/Enrichment", (("Topic", "topic.key_enriched"),)),
    Rule("F038", _E, "duplicate-destination", "Field", (("Entries", "fields.duplicate_destination"),)),
    Rule("F039", _W, "part-number-missing", "Key, Index, Filter, Field", (("Entries", "fields.part_number_missing"),)),
)

_DERIVED_SOURCE = (("View", "sources.undefined_source"), ("ConflatedTopic", "sources.undefined_source"))

_REFERENCES: tuple[Rule, ...] = (
    Rule(
        "R001",
        _E,
        "undefined-message-type",
        "MessageType",
        (("Entries", "references.unknown_entry_type"), ("AMPSConfig", "references.unknown_other_type")),
    ),
    Rule("R002", _E, "undefined-module", "Module", (("AMPSConfig", "references.undefined_module"),)),
    Rule(
        "R003",
        _E,
        "undefined-protocol",
        "Transports/Transport/Protocol",
        (("Transport", "references.undefined_protocol"),),
    ),
    Rule("R004", _E, "undefined-source", "UnderlyingTopic", _DERIVED_SOURCE),
    Rule("R005", _E, "defined-later", "UnderlyingTopic", (("AMPSConfig", "sources.defined_later"),)),
    Rule("R006", _E, "pattern-source", "SOW/View/UnderlyingTopic", (("View", "sources.pattern_source"),)),
    Rule("R007", _E, "conflated-other-type", "SOW/ConflatedTopic", (("ConflatedTopic", "view.conflated_other_type"),)),
    Rule("R008", _E, "queue-not-journaled", "SOW/Queue", (("Queues", "queue.queue_not_journaled"),)),
    Rule("R009", _E, "queue-journaled-otherwise", "SOW/Queue", (("Queues", "queue.queue_journaled_otherwise"),)),
    Rule("R010", _E, "not-a-websocket", "Admin/SQLTransport", (("Admin", "service.not_a_websocket"),)),
    Rule("R011", _W, "undefined-action-target", "Actions/Action", (("Action", "targets.undefined_target"),), also=_E),
    Rule("R012", _E, "port-used-twice", "InetAddr", (("AMPSConfig", "transport.port_used_twice"),)),
    Rule("R013", _E, "duplicate-name", "Name", (("AMPSConfig", "references.duplicate_name"),)),
    Rule(
        "R014",
        _E,
        "replicated-not-journaled",
        "Replication/Destination/Topic",
        (("Destination", "replication.replicated_not_journaled"),),
    ),
    Rule("R015", _W, "behind-pattern", "SOW", (("AMPSConfig", "topic.behind_pattern"),)),
    Rule(
        "R016", _W, "too-few-sync", "Tuning/Replication/MinSyncDestinations", (("Tuning", "replication.too_few_sync"),)
    ),
    Rule("R017", _E, "undefined-join-source", "SOW/View/UnderlyingTopic", (("View", "sources.undefined_join_source"),)),
    Rule("R018", _E, "unreachable-field", "SOW/View", (("View", "view.unreachable_field"),)),
    Rule("R019", _W, "reserved-name", "SOW", (("Entries", "topic.reserved_name"),)),
    Rule("R022", _W, "queue-monitored", "Actions/Action/On", (("Action", "targets.queue_monitored"),)),
    Rule("R023", _W, "pattern-not-journaled", "SOW/Topic", (("Topic", "topic.pattern_not_journaled"),)),
    Rule("R024", _E, "two-purposes", "FileName", (("AMPSConfig", "service.two_purposes"),)),
    Rule(
        "R025",
        _W,
        "replication-to-itself",
        "Replication/Destination/Name",
        (("Destination", "replication.replication_to_itself"),),
    ),
    Rule("R026", _E, "publish-target-outside", "SOW/Queue", (("Queues", "queue.publish_target_outside"),)),
    Rule("R027", _E, "derivation-cycle", "SOW", (("AMPSConfig", "sources.derivation_cycle"),)),
    Rule(
        "R028",
        _I,
        "starts-empty",
        "SOW/View, SOW/ConflatedTopic",
        (("AMPSConfig", "sources.starts_empty"),),
    ),
    Rule("R029", _W, "queue-is-a-topic", "SOW/Queue", (("Queues", "queue.queue_is_a_topic"),)),
    Rule("R030", _W, "index-not-projected", "SOW/View/HashIndex", (("View", "view.index_not_projected"),)),
    Rule("R031", _E, "file-of-the-instance", "SOW/Topic/FileName", (("Topic", "topic.file_of_the_instance"),)),
    Rule("R032", _E, "derivation-too-deep", "SOW", (("AMPSConfig", "sources.derivation_too_deep"),)),
    Rule("R033", _E, "join-order", "SOW/View/UnderlyingTopic", (("View", "sources.join_order"),)),
)

_SPELLINGS: tuple[Rule, ...] = (
    Rule("D001", _W, "topic-definition", "SOW/TopicDefinition"),
    Rule("D002", _I, "topic-as-name", "SOW"),
    Rule("D003", _W, "view-definition", "SOW/ViewDefinition"),
    Rule("D004", _W, "queue-definition", "SOW/QueueDefinition"),
    Rule("D005", _W, "replica-definition", "SOW/ReplicaDefinition"),
    Rule("D006", _W, "topic-metadata", "TopicMetaData"),
    Rule("D007", _W, "duration", "SOW/Topic/Duration"),
    Rule("D008", _W, "retired-storage-sizes", "SOW/Topic"),
    Rule("D009", _I, "min-journal-size", "TransactionLog/MinJournalSize"),
    Rule(
        "D010",
        _I,
        "protocol-json",
        "Transports/Transport/Protocol",
        (("Transport", "spellings.protocol_json"), ("Protocol", "spellings.protocol_json")),
    ),
    Rule("D011", _W, "level-debug", "Logging/Target/Level", (("Target", "spellings.level_debug"),)),
    Rule("D012", _W, "vacuum-statistics", "Actions/Action/Do", (("Action", "spellings.vacuum_statistics"),)),
    Rule("D013", _W, "legacy-protocol", "Transports/Transport/Protocol", (("Transport", "spellings.legacy_protocol"),)),
    Rule("D014", _W, "sow-stats-interval", "SOWStatsInterval"),
    Rule("D015", _I, "view-file-unused", "SOW/View/FileName"),
    Rule("D016", _W, "type-as-module", "MessageTypes/MessageType", (("MessageType", "spellings.type_as_module"),)),
    Rule("D017", _W, "insecure-protocol", "SecureSocketProtocols", (("AMPSConfig", "spellings.insecure_protocol"),)),
    Rule("D018", _W, "null-equivalency", "SOW/View/JoinNullEquivalency", (("View", "spellings.null_equivalency"),)),
    Rule("D019", _E, "misspelled-action-module", "Actions/Action/Do", (("Action", "actions.misspelled_module"),)),
    Rule("D020", _I, "compliance-two", "MessageTypes/MessageType", (("MessageType", "spellings.compliance_two"),)),
)

LIMIT_RULES: tuple[Rule, ...] = (
    Rule(TOO_LARGE_CODE, _E, "file-too-large", "the file"),
    Rule(TOO_DEEP_CODE, _E, "nested-too-deep", "the file"),
    Rule(TOO_MANY_CODE, _E, "too-many-elements", "the file"),
    Rule(UNREADABLE_CODE, _E, "file-unreadable", "the file"),
    Rule(UNKNOWN_WORD_CODE, _W, "unknown-suppression", "a comment for lint"),
    Rule(UNUSED_WORD_CODE, _I, "unused-suppression", "a comment for lint"),
    Rule(
        NO_STAND_IN_CODE,
        _I,
        "generator-not-registered",
        "SOW/Topic/KeyGenerator/Module",
        (("Topic", "references.generator_not_registered"),),
    ),
)
"""Findings with a code and no published number: limits of this program, unreadable files, comments for lint, key
generators without a Python replacement."""

RULES: tuple[Rule, ...] = (
    *_XML,
    *_STRUCTURE,
    *_FIELDS,
    *_REFERENCES,
    *_SPELLINGS,
    *ADVICE_RULES,
    *LOAD_RULES,
    *LIMIT_RULES,
)


@cache
def index_rules() -> dict[str, Rule]:
    """The rows by id, in the order of the ids within their families."""
    order = {family: number for number, family in enumerate("XSFRDB")}
    numbered = sorted(RULES, key=lambda rule: (order.get(rule.id[0] if len(rule.id) == 4 else "", 9), rule.id))
    return {rule.id: rule for rule in numbered}


def find_rule(word: str) -> Rule | None:
    """The rule of an id, an error code (``SOW-CFG-122``) or a title; letter case does not matter."""
    rules = index_rules()
    if (known := rules.get(word.upper())) is not None:
        return known
    for rule in rules.values():
        if word.lower() == rule.title or word.upper() == find_error_code(rule.id):
            return rule
    return None


def select_rules(words: Iterable[str]) -> frozenset[str]:
    """The ids that words select: ids, codes, titles, prefixes of ids such as ``B`` or ``S04``, and ``all``.

    Raises :class:`~sowctl.errors.UsageError` SOW-CFG-050 for a word that selects none.
    """
    chosen: set[str] = set()
    for word in words:
        beginning = word.upper()
        found = {rule for rule in index_rules() if rule.startswith(beginning)} if beginning[:4] != "SOW-" else set()
        if word.lower() == "all":
            found = set(index_rules())
        elif (rule := find_rule(word)) is not None:
            found = {rule.id}
        if not found or not word:
            raise UsageError("SOW-CFG-050", f"unknown rule {word}", hint=suggest_rule(word) or "sowctl lint --list")
        chosen |= found
    return frozenset(chosen)


def suggest_rule(word: str) -> str | None:
    """A hint with the rule whose id or title is nearest to a word."""
    from sowctl.config.suggestions import find_nearest

    close = find_nearest(word, (name for rule in index_rules().values() for name in (rule.id, rule.title)))
    return f"did you mean {close}?" if close else None
