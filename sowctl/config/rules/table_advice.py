"""The rows of the advice: rules of the family B, part of the table in :mod:`sowctl.config.rules.table`."""

from __future__ import annotations

from sowctl.config.rules.rule import Rule

ADVICE: tuple[Rule, ...] = ()
