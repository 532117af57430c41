"""Dates (``sowctl-expressions(7)``, functions)."""

from __future__ import annotations

from sowctl.expressions.functions.signature import Function

DATES: tuple[Function, ...] = ()
