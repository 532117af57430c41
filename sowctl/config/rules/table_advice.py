"""The rows of the advice: rules of the family B, part of the table in :mod:`sowctl.config.rules.table`."""

from __future__ import annotations

from sowctl.config.rules.rule import Rule
from sowctl.findings import Level

_W, _I = Level.WARNING, Level.INFO

ADVICE_RULES: tuple[Rule, ...] = (
    Rule("B001", _W, "message-too-large", "SOW/Topic/SlabSize", (("Topic", "advice_storage.message_too_large"),)),
    Rule("B002", _I, "slab-without-need", "SOW/Topic/SlabSize", (("Topic", "advice_storage.slab_without_need"),)),
    Rule("B003", _W, "slab-too-small", "SOW/Topic/SlabSize", (("Topic", "advice_storage.slab_too_small"),)),
    Rule("B004", _W, "slabs-below-cores", "SOW/Topic/SlabSize", (("Topic", "advice_storage.slabs_below_cores"),)),
    Rule("B005", _I, "large-at-start", "SOW/Topic/SlabSize", (("Topic", "advice_storage.large_at_start"),)),
    Rule(
        "B006",
        _I,
        "key-count-rounded",
        "SOW/Topic/ExpectedKeyCountHint",
        (("Topic", "advice_storage.key_count_rounded"),),
    ),
    Rule(
        "B007",
        _W,
        "key-count-above-memory",
        "SOW/Topic/ExpectedKeyCountHint",
        (("Topic", "advice_storage.key_count_above_memory"),),
    ),
    Rule(
        "B008",
        _I,
        "index-repeats-key",
        "HashIndex",
        (
            ("Topic", "advice_storage.index_repeats_key"),
            ("View", "advice_storage.index_repeats_key"),
        ),
    ),
    Rule(
        "B009",
        _W,
        "journal-size-for-production",
        "TransactionLog/JournalSize",
        (("TransactionLog", "advice_journal.journal_size_for_production"),),
    ),
    Rule(
        "B010",
        _W,
        "journals-never-removed",
        "TransactionLog",
        (("TransactionLog", "advice_journal.journals_never_removed"),),
    ),
    Rule("B011", _W, "statistics-grow", "Admin/FileName", (("Admin", "advice_service.statistics_grow"),)),
    Rule("B012", _W, "logs-grow", "Logging/Target/FileName", (("Logging", "advice_service.logs_grow"),)),
    Rule("B013", _W, "nothing-logged", "Logging", (("AMPSConfig", "advice_service.nothing_logged"),)),
    Rule("B014", _W, "rotation-overwrites", "Logging/Target", (("Target", "advice_service.rotation_overwrites"),)),
    Rule("B015", _W, "direct-io-off", "TransactionLog/O_DIRECT", (("TransactionLog", "advice_journal.direct_io_off"),)),
    Rule(
        "B016",
        _I,
        "flush-interval-changed",
        "TransactionLog/FlushInterval",
        (("TransactionLog", "advice_journal.flush_interval_changed"),),
    ),
    Rule("B017", _I, "numa-tuned", "Tuning/NUMA/Enabled", (("Tuning", "advice_instance.numa_tuned"),)),
    Rule("B018", _W, "relative-path", "any path", (("AMPSConfig", "advice_instance.relative_path"),)),
    Rule("B019", _W, "slash-in-file-name", "SOW/Topic/FileName", (("Topic", "advice_topic.slash_in_file_name"),)),
    Rule("B020", _W, "name-like-a-pattern", "SOW", (("Entries", "advice_topic.name_like_a_pattern"),)),
    Rule(
        "B021",
        _W,
        "journal-name-unanchored",
        "TransactionLog/Topic/Name",
        (("TransactionLog", "advice_journal.journal_name_unanchored"),),
    ),
    Rule("B022", _I, "awkward-instance-name", "Name", (("AMPSConfig", "advice_instance.awkward_instance_name"),)),
    Rule(
        "B023",
        _W,
        "neither-aggregated-nor-grouped",
        "SOW/View/Projection/Field",
        (("View", "advice_view.neither_aggregated_nor_grouped"),),
    ),
    Rule(
        "B024", _W, "aggregate-inside-if", "SOW/View/Projection/Field", (("View", "advice_view.aggregate_inside_if"),)
    ),
    Rule("B025", _I, "fast-source", "SOW/View", (("AMPSConfig", "advice_view.fast_source"),)),
    Rule("B026", _I, "join-fans-out", "SOW/View/UnderlyingTopic/Join", (("View", "advice_view.join_fans_out"),)),
    Rule("B027", _W, "lost-on-restart", "SOW/Topic", (("AMPSConfig", "advice_topic.lost_on_restart"),)),
    Rule(
        "B028",
        _I,
        "file-of-transient-topic",
        "SOW/Topic/FileName",
        (("Topic", "advice_topic.file_of_transient_topic"),),
    ),
    Rule("B029", _W, "deletes-everything", "Actions/Action/Do", (("AMPSConfig", "advice_actions.deletes_everything"),)),
    Rule("B030", _W, "dangerous-command", "Actions/Action/Do", (("AMPSConfig", "advice_actions.dangerous_command"),)),
    Rule("B031", _W, "publish-loop", "Actions/Action", (("AMPSConfig", "advice_actions.publish_loop"),)),
    Rule("B032", _I, "counts-from-start", "Actions/Action/On", (("AMPSConfig", "advice_schedule.counts_from_start"),)),
    Rule("B033", _W, "clear-secret", "any option", (("AMPSConfig", "advice_instance.clear_secret"),)),
    Rule("B034", _W, "unverified-peer", "any option", (("AMPSConfig", "advice_instance.unverified_peer"),)),
    Rule("B035", _W, "admin-open", "Admin/InetAddr", (("Admin", "advice_service.admin_open"),)),
    Rule(
        "B036", _I, "replication-name", "Transports/Transport/Name", (("Transport", "advice_network.replication_name"),)
    ),
    Rule("B037", _W, "no-sync-destination", "Replication", (("Replication", "advice_network.no_sync_destination"),)),
    Rule(
        "B038", _I, "no-pass-through", "Replication/Destination", (("Replication", "advice_network.no_pass_through"),)
    ),
    Rule(
        "B039", _W, "unequal-group", "Replication/Destination/Group", (("AMPSConfig", "advice_network.unequal_group"),)
    ),
    Rule("B040", _W, "client-age-limit", "ClientMessageAgeLimit", (("AMPSConfig", "advice_network.client_age_limit"),)),
    Rule("B041", _W, "memory-limit", "MessageMemoryLimit", (("AMPSConfig", "advice_network.memory_limit"),)),
    Rule("B042", _I, "one-at-a-time", "SOW/Queue", (("Queues", "advice_queue.one_at_a_time"),)),
    Rule(
        "B043",
        _W,
        "acknowledgements-expire-early",
        "TransactionLog/InactiveClientAckExpiration",
        (("TransactionLog", "advice_journal.acknowledgements_expire_early"),),
    ),
    Rule(
        "B044",
        _I,
        "unused-definition",
        "Modules, MessageTypes, Protocols",
        (("AMPSConfig", "advice_instance.unused_definition"),),
    ),
    Rule("B045", _W, "flapping", "Actions/Action/Do", (("AMPSConfig", "advice_schedule.flapping"),)),
    Rule(
        "B046",
        _W,
        "proxied-automatically",
        "Actions/Action/Do",
        (("AMPSConfig", "advice_schedule.proxied_automatically"),),
    ),
    Rule("B047", _W, "validation-off", "ConfigValidation", (("AMPSConfig", "advice_instance.validation_off"),)),
    Rule("B048", _W, "records-nothing", "TransactionLog", (("TransactionLog", "advice_journal.records_nothing"),)),
    Rule("B049", _W, "without-lease", "SOW/Queue", (("Queues", "advice_queue.without_lease"),)),
    Rule("B050", _I, "topic-not-journaled", "SOW/Topic", (("AMPSConfig", "advice_topic.topic_not_journaled"),)),
    Rule("B051", _W, "compacts-often", "Actions/Action/On", (("AMPSConfig", "advice_schedule.compacts_often"),)),
    Rule(
        "B052",
        _I,
        "two-ways-to-save-memory",
        "SOW/Queue/FileBackedMetadata",
        (("Queues", "advice_queue.two_ways_to_save_memory"),),
    ),
    Rule(
        "B053", _W, "history-too-fine", "SOW/Topic/History/Granularity", (("Topic", "advice_topic.history_too_fine"),)
    ),
    Rule("B054", _I, "crowded-pattern", "SOW/Topic/Pattern", (("Topic", "advice_topic.crowded_pattern"),)),
    Rule(
        "B055",
        _W,
        "removes-needed-files",
        "Actions/Action/Do",
        (("AMPSConfig", "advice_actions.removes_needed_files"),),
    ),
    Rule("B056", _I, "batch-size", "BatchSize", (("AMPSConfig", "advice_instance.batch_size"),)),
    Rule("B057", _W, "removed-too-early", "Actions/Action/Do", (("AMPSConfig", "advice_journal.removed_too_early"),)),
    Rule(
        "B058",
        _I,
        "tcp-with-certificate",
        "Transports/Transport/Type",
        (("Transport", "advice_network.tcp_with_certificate"),),
    ),
    Rule("B059", _W, "log-shows-data", "Logging/Target/Level", (("Target", "advice_service.log_shows_data"),)),
    Rule("B060", _W, "file-outside", "SOW/Topic/FileName", (("Topic", "advice_topic.file_outside"),)),
    Rule("B061", _W, "filter-like-sql", "Filter, BarrierExpression", (("Entries", "advice_topic.filter_like_sql"),)),
)
