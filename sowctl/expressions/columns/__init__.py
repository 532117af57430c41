"""The columnar evaluator: compiled expressions over numpy columns (``sowctl-expressions(7)``, two evaluators).

Whoever imports this package imports numpy. The row evaluator defines every result; what cannot be computed on columns
with the very same result is handed back to it, node by node, and :meth:`ColumnProgram.explanation` says so.

* ``column``: one column of values, and how it is made; ``batch``: the columns of some messages
* ``program``: a compiled expression over a batch, and its explanation
* ``arithmetic``, ``comparing``, ``logic``, ``functions``: the kernels
* ``byrows``: single nodes through the row evaluator
* ``grouping``: groups of a projection from columns
"""

from __future__ import annotations

from sowctl.expressions.columns.batch import SlotBatch
from sowctl.expressions.columns.column import Column, Kind
from sowctl.expressions.columns.program import ColumnProgram

__all__ = ["Column", "ColumnProgram", "Kind", "SlotBatch"]
