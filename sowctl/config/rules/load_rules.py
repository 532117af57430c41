"""The rules that stop a command when it loads a configuration, because the model would be wrong or meaningless.

Their rows are separate from the rest of :mod:`sowctl.config.rules.table`, so that a command that only loads need not
import those.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from sowctl.config.document import ElementNode
from sowctl.config.rules.rule import Rule
from sowctl.config.rules.survey import Survey
from sowctl.findings import Finding, Level

_E = Level.ERROR

LOAD_RULES: tuple[Rule, ...] = (
    Rule("S022", _E, "persistent-without-file", "SOW/Topic", (("Topic", "topic.persistent_without_file"),)),
    Rule("F001", _E, "history-with-expiration", "SOW/Topic", (("Topic", "topic.history_with_expiration"),)),
    Rule("F002", _E, "pattern-excludes", "SOW/Topic", (("Topic", "topic.pattern_excludes"),)),
    Rule("F003", _E, "domain-without-key", "SOW/Topic/KeyDomain", (("Topic", "topic.domain_without_key"),)),
    Rule("F004", _E, "key-and-generator", "SOW/Topic/KeyGenerator", (("Topic", "topic.key_and_generator"),)),
    Rule("F033", _E, "empty-history", "SOW/Topic/History", (("Topic", "topic.empty_history"),)),
    Rule(
        "F040",
        _E,
        "written-at-url",
        "SOW/Topic/FileName, TransactionLog/JournalDirectory",
        (("Topic", "topic.written_at_url"), ("TransactionLog", "topic.written_at_url")),
    ),
    Rule("R020", _E, "defined-twice", "SOW", (("AMPSConfig", "topic.defined_twice"),)),
    Rule("R021", _E, "shared-file", "SOW/Topic/FileName", (("AMPSConfig", "topic.shared_file"),)),
    Rule("R034", _E, "name-of-side-file", "SOW/Topic/FileName", (("Topic", "topic.name_of_side_file"),)),
)


def find_load_errors(top: ElementNode) -> Iterator[Finding]:
    """Yield the findings of these rules, lazily, in the order above."""
    survey = Survey(top, Path())
    for rule in LOAD_RULES:
        yield from rule.run(survey)
