"""The words of other tools for commands and options of this one, and the nearest known word for an unknown one.

They are used only in hints: a word of these tables is never accepted instead of the right one. ``application.py`` uses
those of options, ``dispatch.py`` those of commands.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

OPTION_SYNONYMS: Mapping[str, str] = {
    "--limit": "--top-n",
    "--head": "--top-n",
    "--max": "--top-n",
    "--first": "--top-n",
    "--rows": "--top-n",
    "-l": "-n",
    "-o": "--output",
    "--offset": "--skip-n",
    "--skip": "--skip-n",
    "--where": "--filter",
    "--grep": "--filter",
    "--sort": "--order-by",
    "--sort-by": "--order-by",
    "--order": "--order-by",
    "--group-by": "--grouping",
    "--fields": "--select",
    "--ndjson": "--format ndjson",
    "--jsonl": "--format ndjson",
    "--json-lines": "--format ndjson",
    "--output-format": "--format",
    "--pretty": "--format table",
    "--until": "--at",
    "--distinct": "--grouping",
    "--unique": "--grouping",
    "--csv": "--format csv",
    "--tsv": "--format tsv",
    "--raw": "--format raw",
    "--table": "--format table",
    "--as-of": "--at",
    "--asof": "--at",
    "--timestamp": "--at",
    "--key": "--sow-key",
    "--id": "--sow-key",
    "--out": "--output",
    "--no-color": "--color never",
    "--no-colour": "--color never",
    "--ttl": "--expiration",
    "--checkpoint": "--store",
    "--incremental": "--changes",
    "--cdc": "--changes",
    "--tombstones": "--deletes",
    "--include-deletes": "--deletes",
    "--force-yes": "--yes",
    "--assume-yes": "--yes",
    "--simulate": "--dry-run",
    "--dry-run": "--fix --diff",
    "--silent": "--quiet",
    "--nl": "--format ndjson",
    "--json-array": "--format json",
    "--field": "--select",
    "--having": "--filter",
    "--pick": "--select",
    "--from-beginning": "--bookmark EPOCH",
    "--oneline": "--diff",
    "--patch": "--diff",
    "-p": "--diff",
}
"""By an option of other tools, the equivalent option that a command may have, with its value if that is needed."""

COMMAND_OPTION_SYNONYMS: Mapping[str, Mapping[str, str]] = {
    "delete": {"--all": "--filter '1 = 1'"},
    "tail": {"-n": "--max", "--limit": "--max", "--top-n": "--max"},
    "journal dump": {"-n": "--limit", "--top-n": "--limit"},
    "stats": {"--by": "--by-topic"},
    "get": {"--field": "--columns"},
    "config add topic": {
        "--retention": "--history",
        "--window": "--history",
        "--id": "--key",
        "--pk": "--key",
        "--type": "--message-type",
    },
    "config add view": {
        "--topic": "--source",
        "--from": "--source",
        "--underlying-topic": "--source",
        "--select": "--projection",
        "--fields": "--projection",
    },
    "config add queue": {
        "--topic": "--source",
        "--from": "--source",
        "--underlying-topic": "--source",
        "--lease": "--lease-period",
        "--visibility-timeout": "--lease-period",
        "--retries": "--max-deliveries",
        "--prefetch": "--max-per-subscription",
    },
}
"""By command, the meaning of an option in it; overrides :data:`OPTION_SYNONYMS`."""

_KEY_WORDS = "get, history and blame take keys as operands: sowctl {} TOPIC KEY"
_STORE_WORDS = "bookmark commands take the store as their first operand: sowctl {} STORE"

OPTION_ADVICE: Mapping[str, str] = {
    "--join": "join topics in SQL: sowctl sql 'SELECT ... FROM a JOIN b USING (id)'; or define a view: "
    "sowctl config add view",
    "--reverse": "reverse an order with DESC: --order-by '/price DESC'",
    "--desc": "reverse an order with DESC: --order-by '/price DESC'",
    "--last": "order descending and limit: --order-by '/time DESC' --top-n 5",
    "--tail": "order descending and limit: --order-by '/time DESC' --top-n 5",
    "--sum": "aggregate with --projection 'SUM(/qty) AS /qty' --grouping /symbol",
    "--avg": "aggregate with --projection 'AVG(/qty) AS /qty' --grouping /symbol",
    "--exclude": "name the fields to print with --select",
    "--expect": "assert with sowctl hash --expect, or compare with a file: sowctl diff TOPIC FILE",
    "--since": "give a filter on a field with the time, such as \"/time >= '2026-01-05T10:00:00Z'\"",
    "--until": "give a filter on a field with the time, such as \"/time < '2026-01-05T10:00:00Z'\"",
    "--limit": "reverse and cut the output, such as | tail -n 5",
    "--key": _KEY_WORDS.format("get"),
    "--keys": _KEY_WORDS.format("get"),
    "--store": _STORE_WORDS.format("bookmark list"),
    "--pk": "the configuration has the key fields: sowctl config add topic NAME=/key",
    "--detect-types": "rows of files are read with --from FILE",
    "--nl": "JSON messages, one a line, are read without an option",
    "--csv": "rows are read from a file: --from FILE.csv",
    "--tsv": "rows are read from a file: --from FILE.tsv",
    "--group": "subscriptions have no groups; workers that share messages use a queue: sowctl queue run",
}
"""By an option that a command lacks, another way to achieve the same; a word that :data:`OPTION_SYNONYMS` maps to an
option of the command gets that hint instead."""

_UNDO_ADVICE = (
    "sowctl history prints the versions of a record; "
    "sowctl diff TOPIC TOPIC@TIME --format envelopes | sowctl publish --framing envelope "
    "returns a topic to its state at TIME; sowctl restore restores a backup"
)
COMMAND_ADVICE: Mapping[str, str] = {
    **dict.fromkeys(("undo", "undelete", "revert", "rollback", "reset", "redo"), _UNDO_ADVICE),
    "dump": "sowctl export writes a topic to a file, sowctl journal dump prints the journal, "
    "sowctl backup copies the instance",
    "log": "sowctl history prints the versions of a record, sowctl journal dump the entries of the journal",
    "ttl": "sowctl get --meta prints the expiration of a record, sowctl config add expiration sets that of a topic",
    "checkout": "sowctl query --at TIME reads the state at a time, sowctl snapshot writes it to a file",
    "stash": "sowctl snapshot writes the state of a topic to a file, sowctl backup copies the instance",
    "forget": "sowctl journal prune removes old journal files; backups are directories, which rm removes",
    "unlock": "locks end with the process that holds them; sowctl doctor looks for problems",
}
"""By a command of other tools without a single equivalent here, the alternatives."""

COMMAND_SYNONYMS: Mapping[str, str] = {
    "select": "query",
    "find": "query",
    "changes": "export --changes",
    "cdc": "export --changes",
    "rotate": "journal rotate",
    "cat": "query",
    "show": "query",
    "head": "query",
    "grep": "query",
    "count": "query --count",
    "list": "info",
    "ls": "info",
    "stat": "info",
    "topics": "info",
    "tables": "info",
    "status": "info",
    "describe": "schema",
    "desc": "schema",
    "summary": "stats",
    "profile": "stats",
    "compare": "diff",
    "tui": "browse",
    "ui": "browse",
    "repl": "shell",
    "console": "shell",
    "watch": "subscribe",
    "follow": "subscribe",
    "consume": "subscribe",
    "wait": "tail --max",
    "insert": "publish",
    "put": "publish",
    "set": "publish",
    "upsert": "publish",
    "update": "publish",
    "import": "publish",
    "load": "publish",
    "produce": "publish",
    "remove": "delete",
    "rm": "delete",
    "drop": "delete",
    "truncate": "delete --filter '1 = 1'",
    "clear": "delete --filter '1 = 1'",
    "empty": "delete --filter '1 = 1'",
    "vacuum": "store compact",
    "gc": "store clean",
    "join": "sql",
    "group": "query --grouping",
    "rebuild": "replay",
    "recover": "replay",
    "verify": "check",
    "fsck": "check",
    "checksum": "hash",
    "digest": "hash",
    "init": "config init",
    "create": "config init",
    "add": "config add",
    "alter": "config add",
    "view create": "config add view",
    "view add": "config add view",
    "queue create": "config add queue",
    "queue add": "config add queue",
    "config create": "config init",
    "config new": "config init",
    "config set": "config add",
    "version": "--version",
    "rows": "query",
    "scan": "query",
    "lrange": "query",
    "from": "query",
    "hgetall": "get",
    "mget": "get",
    "exists": "get",
    "memory": "sql",
    "attach": "sql",
    "transform": "sql",
    "copy": "export",
    "convert": "export",
    "summarize": "stats",
    "analyze": "stats",
    "top": "stats --journal",
    "monitor": "tail",
    "psubscribe": "subscribe",
    "xread": "subscribe",
    "xadd": "publish",
    "hset": "publish",
    "lpush": "publish",
    "push": "publish",
    "merge": "publish",
    "commit": "publish",
    "flushall": "delete --filter '1 = 1'",
    "flushdb": "delete --filter '1 = 1'",
    "aggregate": "query --grouping",
    "optimize": "store compact",
    "topic": "info",
    "du": "info",
    "size": "info",
    "offsets": "bookmark list",
    "snapshots": "backup --list",
    "save": "backup",
    "bgsave": "backup",
    "clone": "backup",
    "ping": "doctor",
    "create-topic": "config add topic",
    "create-view": "config add view",
    "create-queue": "config add queue",
}
"""By a command of other tools, that of this program, with its option if needed; an option of the program counts as
well."""

COMMAND_OPTION_ADVICE: Mapping[str, Mapping[str, str]] = {
    "delete": {"--keys": "give each key with --key KEY, or a file of messages with these keys: --data FILE"},
    **{name: dict.fromkeys(("--key", "--keys"), _KEY_WORDS.format(name)) for name in ("history", "blame")},
    **{
        f"bookmark {name}": {"--store": _STORE_WORDS.format(f"bookmark {name}")}
        for name in ("list", "get", "set", "rewind", "check", "purge")
    },
}
"""By command, the advice for an option; overrides :data:`OPTION_ADVICE`."""

MISSING_ADVICE: Mapping[tuple[str, str], str] = {
    (
        "history",
        "KEY",
    ): "give the SOW key or the key-field values of a record, for example sowctl history orders 10417; "
    "the versions of all records: sowctl sql 'SELECT * FROM \"orders@history\"'",
    ("blame", "KEY"): "give the SOW key or the key-field values of a record, for example sowctl blame orders 10417",
    ("get", "KEY"): "give the SOW key or the key-field values of a record; sowctl query prints all records",
    ("snapshot", "--at"): "give a time, for example --at -1h; sowctl query prints the current state",
    ("export", "FILE"): "name the file, for example orders.parquet; its ending selects the format",
    ("pipeline export", "--output"): "name a directory or URL, for example --output s3://bucket/orders",
    ("restore", "--to"): "name a new directory, for example --to restored",
}
"""By command and missing parameter, the value to give."""

VALUE_SYNONYMS: Mapping[str, str] = {
    "jsonl": "ndjson",
    "jsonlines": "ndjson",
    "json-lines": "ndjson",
    "feather": "arrow",
    "ipc": "arrow",
    "xls": "csv",
    "xlsx": "csv",
    "excel": "csv",
    "text": "table",
}
"""By an option value of other tools, the equivalent value here."""

VALUE_ADVICE: Mapping[str, str] = {
    "kafka": "records of Kafka are read with --envelope kafka",
    "debezium": "change events of Debezium are read with --envelope debezium",
    "ddl": "--ddl prints the fields as a Spark schema",
    "json-schema": "--json-schema prints a JSON Schema",
    "jsonschema": "--json-schema prints a JSON Schema",
    "sqlite": "sowctl export writes SQLite and DuckDB files",
    "duckdb": "sowctl export writes SQLite and DuckDB files",
}
"""By an unknown value of an option, advice on its likely meaning."""


TYPE_SYNONYMS: Mapping[str, str] = {
    "float": "number",
    "double": "number",
    "real": "number",
    "decimal": "number",
    "numeric": "number",
    "int": "integer",
    "bigint": "integer",
    "long": "integer",
    "int64": "integer",
    "str": "text",
    "string": "text",
    "varchar": "text",
    "date": "text",
    "datetime": "text",
    "timestamp": "text",
    "bool": "boolean",
    "object": "json",
    "struct": "json",
}
"""By a type of other tools, that of ``--type`` here."""


def find_near(word: str, known: Collection[str], table: Mapping[str, str]) -> list[str]:
    """Return the likely meanings of ``word``, best first: that in ``table``, else similar known words.

    A suggestion of the table counts only if its first word is known.
    """
    told = table.get(word.lower())
    if told is not None and told.split()[0] in known:
        return [told]
    from difflib import get_close_matches

    # Three letters at least: a shorter prefix is too ambiguous.
    begun = [name for name in known if len(word.lstrip("-")) > 2 and name.startswith(word)]
    return begun[:3] or get_close_matches(word, known, n=2, cutoff=0.75)
