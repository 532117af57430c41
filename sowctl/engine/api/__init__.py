"""The Python API of ``sowctl.open``: an instance whose topics have verbs as methods (sowctl-python(7)).

* ``arguments``: times, intervals, keys and messages of callers, converted to arguments of verbs.
* ``keyword_checks``: checks of the keywords of methods: names, types, bounds.
* ``creation``: first configurations of new instances.
* ``differences``: the result of a comparison.
* ``export_file``: records in a file; the format depends on its ending.
* ``sql_result``: the rows of an SQL statement.
* ``result``: the result of a query: records, dicts, Arrow data, a notebook table.
* ``topic``: the verbs of one topic.
* ``queue``: the verbs of one queue.
* ``instance``: an instance, and access to its topics and queues.

``key``, ``eval`` and the ``journal`` commands have no method; their functions are in ``engine/verbs``. Nothing in the
engine imports this package, because it imports the verbs.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from sowctl.engine.api.instance import InstanceHandle, RowVerbs
from sowctl.engine.api.queue import QueueHandle
from sowctl.engine.api.result import Result
from sowctl.engine.api.topic import TopicHandle

if TYPE_CHECKING:
    from sowctl.engine.api.creation import TopicSettings
    from sowctl.engine.api.differences import Differences
    from sowctl.engine.api.sql_result import SqlResult
    from sowctl.engine.options import PublishOptions
    from sowctl.engine.queues.queue import QueueMessage
    from sowctl.engine.records import StoredRecord
    from sowctl.engine.search.keyhistory import VersionRecord
    from sowctl.engine.subscriptions.events import Event
    from sowctl.engine.subscriptions.subscription import Subscription
    from sowctl.engine.verbs.inspect.blame import Blame, FieldOrigin
    from sowctl.engine.verbs.inspect.diff import RecordChange
    from sowctl.engine.verbs.inspect.schema import SchemaReport
    from sowctl.expressions.environment import EvaluationLimits

__all__ = [
    "Blame",
    "Differences",
    "EvaluationLimits",
    "Event",
    "FieldOrigin",
    "InstanceHandle",
    "PublishOptions",
    "QueueHandle",
    "QueueMessage",
    "RecordChange",
    "Result",
    "RowVerbs",
    "SchemaReport",
    "SqlResult",
    "StoredRecord",
    "Subscription",
    "TopicHandle",
    "TopicSettings",
    "VersionRecord",
]
_LAZY_MODULES = {
    "Blame": "sowctl.engine.verbs.inspect.blame",
    "Differences": "sowctl.engine.api.differences",
    "FieldOrigin": "sowctl.engine.verbs.inspect.blame",
    "RecordChange": "sowctl.engine.verbs.inspect.diff",
    "EvaluationLimits": "sowctl.expressions.environment",
    "Event": "sowctl.engine.subscriptions.events",
    "PublishOptions": "sowctl.engine.options",
    "QueueMessage": "sowctl.engine.queues.queue",
    "StoredRecord": "sowctl.engine.records",
    "SchemaReport": "sowctl.engine.verbs.inspect.schema",
    "SqlResult": "sowctl.engine.api.sql_result",
    "TopicSettings": "sowctl.engine.api.creation",
    "Subscription": "sowctl.engine.subscriptions.subscription",
    "VersionRecord": "sowctl.engine.search.keyhistory",
}
"""Classes of results and arguments, loaded on first use."""


def __getattr__(name: str) -> object:
    if name not in _LAZY_MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_LAZY_MODULES[name]), name)
