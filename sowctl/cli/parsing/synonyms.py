"""The words of other tools for what a command here calls otherwise, and which known word a wrong one is near.

What comes from here are hints: a word of these tables is never accepted in the place of the right one.
``application.py`` asks about options, ``dispatch.py`` about commands.
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
    "--force-yes": "--yes",
    "--assume-yes": "--yes",
    "--simulate": "--dry-run",
    "--dry-run": "--fix --diff",
    "--silent": "--quiet",
}
"""By an option of other tools, the one that a command may have instead, with its value where that says it."""

COMMAND_OPTION_SYNONYMS: Mapping[str, Mapping[str, str]] = {
    "delete": {"--all": "--filter '1 = 1'"},
    "snapshot": {"--to": "--output"},
    "stats": {"--last": "--since"},
}
"""By a command, what an option means there alone; overrides :data:`OPTION_SYNONYMS`."""

COMMAND_SYNONYMS: Mapping[str, str] = {
    "select": "query",
    "find": "query",
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
    "undo": "diff --format envelopes",
    "undelete": "diff --format envelopes",
    "revert": "diff --format envelopes",
    "rollback": "diff --format envelopes",
    "vacuum": "store compact",
    "gc": "store clean",
    "join": "sql",
    "group": "query --grouping",
    "rebuild": "replay",
    "recover": "replay",
    "verify": "check",
    "fsck": "check",
    "log": "journal dump",
    "dump": "journal dump",
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
}
"""By a command of other tools, the one of this program, with its option where that says it; an option of the program
counts as well."""

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
"""By a value of an option of other tools, that of an option here."""


def find_near(word: str, known: Collection[str], table: Mapping[str, str]) -> list[str]:
    """Return the likely meanings of ``word``, best first: that in ``table``, else known words like it.

    A suggestion of the table counts only where its first word is known.
    """
    told = table.get(word.lower())
    if told is not None and told.split()[0] in known:
        return [told]
    from difflib import get_close_matches

    # Three letters at least: a beginning of one or two says nothing about what was meant.
    begun = [name for name in known if len(word.lstrip("-")) > 2 and name.startswith(word)]
    return begun[:3] or get_close_matches(word, known, n=2, cutoff=0.75)
