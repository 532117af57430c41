"""All rules that are functions: id, level, what they look at, and where they are.

The order is the order in which they run. Rules of names, multiplicity, types and ranges come from the element table.
"""

from __future__ import annotations

from sowctl.config.rules.rule import Rule
from sowctl.findings import Level

_E = Level.ERROR

RULES: tuple[Rule, ...] = (
    Rule("S022", _E, "Topic", "topic.persistent_without_file", at_load=True),
    Rule("F001", _E, "Topic", "topic.history_with_expiration", at_load=True),
    Rule("F002", _E, "Topic", "topic.pattern_excludes", at_load=True),
    Rule("F003", _E, "Topic", "topic.domain_without_key", at_load=True),
    Rule("F004", _E, "Topic", "topic.key_and_generator", at_load=True),
    Rule("F033", _E, "Topic", "topic.empty_history", at_load=True),
    Rule("R020", _E, "AMPSConfig", "topic.defined_twice", at_load=True),
    Rule("R021", _E, "AMPSConfig", "topic.shared_file", at_load=True),
)
