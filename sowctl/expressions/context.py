"""Contexts in which an expression may occur, and what they forbid (``sowctl-expressions(7)``, contexts)."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct


class Rules(Struct, frozen=True):
    """What a context allows. ``words`` name it in messages."""

    words: str
    aggregates: bool = False
    current: bool = False
    previous: bool = False
    qualifiers: bool = False
    nondeterministic: bool = True
    lookup: bool = False
    hints: bool = False


class Context(Enum):
    """Every context in which an expression may occur."""

    QUERY_FILTER = Rules("the filter of a query")
    AGGREGATED_QUERY_FILTER = Rules("the filter of an aggregated query")
    OOF_FILTER = Rules("the filter of a subscription with out-of-focus messages", nondeterministic=False)
    PAGINATED_FILTER = Rules("the filter of a paginated subscription", nondeterministic=False)
    AGGREGATED_SUBSCRIPTION_FILTER = Rules("the filter of an aggregated subscription", nondeterministic=False)
    VIEW_FILTER = Rules("the filter of a view", qualifiers=True, nondeterministic=False)
    CONFLATED_FILTER = Rules("the filter of a conflated topic", nondeterministic=False)
    QUEUE_FILTER = Rules("the filter of a queue", nondeterministic=False)
    BARRIER = Rules("a barrier expression", nondeterministic=False)
    REPLICATION_FILTER = Rules("a replication filter", nondeterministic=False)
    QUEUE_PRIORITY = Rules("the priority of a queue")
    PREPROCESSING = Rules("preprocessing", lookup=True, hints=True)
    ENRICHMENT = Rules("enrichment", current=True, previous=True, lookup=True, hints=True)
    CONFLATED_ENRICHMENT = Rules("the enrichment of a conflated topic", current=True, lookup=True, hints=True)
    PROJECTION = Rules("a projection", aggregates=True, qualifiers=True)
    AGGREGATE = Rules("an aggregate function", qualifiers=True, nondeterministic=False)

    @property
    def rules(self) -> Rules:
        """The rules of this context."""
        return self.value
