"""The table of commands: name, module, summary, group. A command exists if and only if it has a row here.

``sowctl --help``, the man pages, the completion scripts and the dispatcher all read this table; none of them imports
a command's module to learn its name. Importing this module costs next to nothing.

A new command is a file in ``sowctl/cli/commands`` and a row here. The file has a Struct that declares its options and
operands (:mod:`sowctl.declarations`), one public function ``run(invocation, arguments)`` whose docstring is the text of
its page, and a tuple ``EXAMPLES`` of command lines for help and page. Then ``python -m sowctl.cli.manual man/``
generates the page.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct


class Command(Struct, frozen=True):
    """One row: ``name`` is one to three words, ``module`` in ``sowctl.cli.commands`` has ``run`` and ``EXAMPLES``."""

    name: str
    module: str
    summary: str
    group: str

    @property
    def words(self) -> tuple[str, ...]:
        """The words of the name, as in argv."""
        return tuple(self.name.split())

    @property
    def page(self) -> str:
        """The name of its man page without the section: ``sowctl-journal-list``."""
        return "sowctl-" + self.name.replace(" ", "-")


DATA_GROUP = "Records"
HISTORY_GROUP = "History"
INSPECTION_GROUP = "Inspection"
DERIVED_GROUP = "Views and conflated topics"
BOOKMARKS_GROUP = "Bookmarks"
QUEUES_GROUP = "Queues"
JOURNAL_GROUP = "Journal"
UPKEEP_GROUP = "Maintenance"
PIPELINE_GROUP = "Pipeline on Spark"
CONFIGURATION_GROUP = "Configuration"
ABOUT_GROUP = "About sowctl"
GROUPS = (
    DATA_GROUP,
    HISTORY_GROUP,
    INSPECTION_GROUP,
    DERIVED_GROUP,
    BOOKMARKS_GROUP,
    QUEUES_GROUP,
    JOURNAL_GROUP,
    UPKEEP_GROUP,
    PIPELINE_GROUP,
    CONFIGURATION_GROUP,
    ABOUT_GROUP,
)

COMMANDS: tuple[Command, ...] = (
    Command("publish", "publish", "publish messages to topics, from files or standard input", DATA_GROUP),
    Command("query", "query", "print the records of topics: filter, sort, limit, project, as of a time", DATA_GROUP),
    Command("export", "export", "write records to a file: Parquet, Arrow, CSV, NDJSON, SQLite", DATA_GROUP),
    Command("get", "get", "print records by SOW key or key-field values", DATA_GROUP),
    Command("sql", "sql", "query topics, histories and the journal in SQL, with DuckDB", DATA_GROUP),
    Command("subscribe", "subscribe", "print the records of topics, then every change as it happens", DATA_GROUP),
    Command("tail", "tail", "print every message as it is published", DATA_GROUP),
    Command("delete", "delete", "delete records by filter, SOW key or matching messages", DATA_GROUP),
    Command("expire", "expire", "remove expired records", DATA_GROUP),
    Command("history", "history", "print the versions of records", HISTORY_GROUP),
    Command("blame", "blame", "print who last changed each field of a record, and when", HISTORY_GROUP),
    Command("diff", "diff", "compare two states of topics, stores or instances by key and field", HISTORY_GROUP),
    Command("snapshot", "snapshot", "write the state of a topic at an earlier time", HISTORY_GROUP),
    Command("replay", "replay", "rebuild stores from the journals, or verify them against the journals", HISTORY_GROUP),
    Command("info", "info", "list topics: type, records, size, position, lag behind the journal", INSPECTION_GROUP),
    Command("schema", "schema", "print the paths of messages: types, NULL, missing, distinct values", INSPECTION_GROUP),
    Command("stats", "stats", "print statistics of fields, or message rates of the journal", INSPECTION_GROUP),
    Command(
        "browse", "browse", "browse topics, records, histories, queues and the journal on a terminal", INSPECTION_GROUP
    ),
    Command("hash", "hash", "print or compare the digest of the state of a topic", INSPECTION_GROUP),
    Command("key", "key", "print the SOW keys of messages", INSPECTION_GROUP),
    Command("eval", "eval", "evaluate an expression for messages, or print matching messages", INSPECTION_GROUP),
    Command("functions", "functions", "list the functions of the expression language", INSPECTION_GROUP),
    Command("view list", "view_list", "list views with their caches and lag", DERIVED_GROUP),
    Command("view show", "view_show", "print a view: definition, sources, cache, costs", DERIVED_GROUP),
    Command("view refresh", "view_refresh", "bring the caches of views up to date", DERIVED_GROUP),
    Command("view check", "view_check", "compare views with their sources", DERIVED_GROUP),
    Command("conflate", "conflate", "bring conflated topics up to date", DERIVED_GROUP),
    Command("bookmark list", "bookmark_list", "list subscriptions with their positions and lag", BOOKMARKS_GROUP),
    Command("bookmark get", "bookmark_get", "print the position of a subscription", BOOKMARKS_GROUP),
    Command("bookmark set", "bookmark_set", "set the position of a subscription", BOOKMARKS_GROUP),
    Command(
        "bookmark rewind", "bookmark_rewind", "move subscriptions back, to receive messages again", BOOKMARKS_GROUP
    ),
    Command(
        "bookmark check", "bookmark_check", "check whether the journals still contain the positions", BOOKMARKS_GROUP
    ),
    Command("bookmark purge", "bookmark_purge", "remove subscriptions from a bookmark store", BOOKMARKS_GROUP),
    Command(
        "queue list", "queue_list", "list queues: pending, leased, delayed and dead messages, workers", QUEUES_GROUP
    ),
    Command("queue info", "queue_info", "print details of a queue: states, rates, barriers, workers", QUEUES_GROUP),
    Command("queue depth", "queue_depth", "print the number of pending messages", QUEUES_GROUP),
    Command(
        "queue peek", "queue_peek", "print the messages of a queue and their states, without leasing", QUEUES_GROUP
    ),
    Command("queue lease", "queue_lease", "lease messages and print them with their tokens", QUEUES_GROUP),
    Command("queue run", "queue_run", "run a command for each message of a queue, as a worker", QUEUES_GROUP),
    Command("queue ack", "queue_ack", "acknowledge messages after processing", QUEUES_GROUP),
    Command("queue cancel", "queue_cancel", "return leased messages to the queue", QUEUES_GROUP),
    Command("queue renew", "queue_renew", "extend leases by another LeasePeriod", QUEUES_GROUP),
    Command("queue expire", "queue_expire", "drop messages without processing them", QUEUES_GROUP),
    Command("queue requeue", "queue_requeue", "deliver dead or delayed messages again", QUEUES_GROUP),
    Command("queue purge", "queue_purge", "drop all messages that are not leased, or all dead ones", QUEUES_GROUP),
    Command(
        "journal list",
        "journal_list",
        "list journal files: sizes, transactions, creation times",
        JOURNAL_GROUP,
    ),
    Command("journal dump", "journal_dump", "print journal entries", JOURNAL_GROUP),
    Command("journal tail", "journal_tail", "print the last journal entries, and follow", JOURNAL_GROUP),
    Command(
        "journal search", "journal_search", "search for entries by key, client, time, filter or pattern", JOURNAL_GROUP
    ),
    Command("journal bisect", "journal_bisect", "find the entry after which a condition holds", JOURNAL_GROUP),
    Command("check", "check", "read every byte of stores and journals and report damage", UPKEEP_GROUP),
    Command("store check", "store_check", "verify the structure of stores, and a part of their data", UPKEEP_GROUP),
    Command(
        "store repair", "store_repair", "save intact records of damaged stores, and restore the rest", UPKEEP_GROUP
    ),
    Command("store clean", "store_clean", "remove files that killed processes left beside stores", UPKEEP_GROUP),
    Command("store compact", "store_compact", "shrink stores while they are in use", UPKEEP_GROUP),
    Command("store reindex", "store_reindex", "build or remove the memo indexes of stores", UPKEEP_GROUP),
    Command("journal repair", "journal_repair", "cut unreadable parts out of the journal", UPKEEP_GROUP),
    Command("journal rotate", "journal_rotate", "finish the active journal file and start a new one", UPKEEP_GROUP),
    Command("journal compress", "journal_compress", "compress finished journal files", UPKEEP_GROUP),
    Command("journal archive", "journal_archive", "move finished journal files to the archive", UPKEEP_GROUP),
    Command("journal prune", "journal_prune", "remove old journal files that are no longer needed", UPKEEP_GROUP),
    Command("journal check", "journal_check", "read every byte of the journal and report damage", UPKEEP_GROUP),
    Command("backup", "backup", "back up an instance as of one instant; list and verify backups", UPKEEP_GROUP),
    Command("restore", "restore", "restore an instance from a backup, as of its instant or earlier", UPKEEP_GROUP),
    Command("upkeep run", "upkeep_run", "run the configured actions that are due", UPKEEP_GROUP),
    Command("upkeep list", "upkeep_list", "list the configured actions and their schedules", UPKEEP_GROUP),
    Command("pipeline load", "pipeline_load", "load files into a topic, in one group", PIPELINE_GROUP),
    Command("pipeline rebuild", "pipeline_rebuild", "rebuild stores from the journals", PIPELINE_GROUP),
    Command("pipeline snapshot", "pipeline_snapshot", "write the state of a topic at an earlier time", PIPELINE_GROUP),
    Command("pipeline view", "pipeline_view", "compute projections with grouping and joins", PIPELINE_GROUP),
    Command("pipeline export", "pipeline_export", "write topics or journal entries as data sets", PIPELINE_GROUP),
    Command(
        "pipeline stream",
        "pipeline_stream",
        "follow the journal: to files, to a topic, to standard output",
        PIPELINE_GROUP,
    ),
    Command(
        "pipeline submit-args", "pipeline_submit_args", "print the spark-submit command line of a job", PIPELINE_GROUP
    ),
    Command("validate", "validate", "report every error that would stop an instance", CONFIGURATION_GROUP),
    Command("lint", "lint", "report errors, warnings and advice about configurations", CONFIGURATION_GROUP),
    Command(
        "config show", "config_show", "print a resolved configuration, with defaults and origins", CONFIGURATION_GROUP
    ),
    Command("config diff", "config_diff", "compare two configurations by their meaning", CONFIGURATION_GROUP),
    Command("config init", "config_init", "create a small configuration", CONFIGURATION_GROUP),
    Command("config add topic", "config_add_topic", "add a topic to a configuration", CONFIGURATION_GROUP),
    Command("config add view", "config_add_view", "add a view to a configuration", CONFIGURATION_GROUP),
    Command("config add queue", "config_add_queue", "add a queue to a configuration", CONFIGURATION_GROUP),
    Command("config add expiration", "config_add_expiration", "let the records of a topic expire", CONFIGURATION_GROUP),
    Command("config add history", "config_add_history", "keep earlier versions of records", CONFIGURATION_GROUP),
    Command("config schema", "config_schema", "list the elements of a configuration", CONFIGURATION_GROUP),
    Command("doctor", "doctor", "check the environment and an instance for problems", ABOUT_GROUP),
    Command("demo", "demo", "create a small instance with sample data", ABOUT_GROUP),
    Command("explain", "explain", "explain error codes: causes and remedies", ABOUT_GROUP),
    Command("man", "man", "show a manual page", ABOUT_GROUP),
    Command("shell", "shell", "run many commands in one process, interactively or from a pipe", ABOUT_GROUP),
    Command("completion", "completion", "print a completion script for bash, zsh or fish", ABOUT_GROUP),
)

PREFIXES = {
    "bookmark": "positions of subscriptions in bookmark stores",
    "store": "check, repair and compact stores",
    "journal": "read, search and maintain journals",
    "queue": "message queues and their workers",
    "upkeep": "scheduled actions of a configuration, without a server",
    "view": "views and their caches",
    "pipeline": "bulk processing with Spark",
    "config": "show, compare, create and change configurations",
    "config add": "add topics, views, queues, expiration and history",
}
"""The words that are no command by themselves, with the subject of their commands."""
PAGES = (
    "sow-archive",
    "sow-backup",
    "sow-bookmark",
    "sow-config",
    "sow-events",
    "sow-journal",
    "sow-memo",
    "sow-queue",
    "sow-run",
    "sow-store",
    "sow-upkeep",
    "sow-view",
    "sowctl-behaviour",
    "sowctl-changes",
    "sowctl-errors",
    "sowctl-expressions",
    "sowctl-guarantees",
    "sowctl-howto",
    "sowctl-messages",
    "sowctl-pipeline",
    "sowctl-plugins",
    "sowctl-python",
    "sowctl-security",
    "sowctl-spark",
    "sowctl-tutorial",
    "sowctl-types",
)
"""The pages about more than one command; sowctl-lint(7) is found by the name of its command."""
_COMMANDS_BY_WORDS = {command.words: command for command in COMMANDS}


def find_command(words: tuple[str, ...]) -> Command | None:
    """The command of these words, or None."""
    return _COMMANDS_BY_WORDS.get(words)


class Member(Struct, frozen=True):
    """A word that may follow a prefix, to form a command or another prefix, and its description."""

    word: str
    summary: str


def list_members(prefix: str) -> tuple[Member, ...]:
    """The words that may follow ``prefix``, in the order of the table."""
    front = tuple(prefix.split())
    found: dict[str, Member] = {}
    for command in COMMANDS:
        if command.words[: len(front)] == front and len(command.words) > len(front):
            word = command.words[len(front)]
            whole = " ".join((*front, word))
            found.setdefault(word, Member(word, command.summary if whole == command.name else PREFIXES[whole]))
    return tuple(found.values())


def split_prefix(words: Sequence[str]) -> tuple[str, list[str]]:
    """The longest prefix of commands at the beginning of ``words``, and the remaining words; empty for none."""
    length = 0
    while length < len(words) and " ".join(words[: length + 1]) in PREFIXES:
        length += 1
    return " ".join(words[:length]), list(words[length:])


def split_command(words: Sequence[str]) -> tuple[Command | None, list[str]]:
    """The command at the beginning of ``words``, None for none, and the remaining words."""
    prefix, behind = split_prefix(words)
    return find_command((*prefix.split(), *behind[:1])), behind[1:]
