"""Analysis of an expression without a message: simpler forms, conditions, bounds.

* ``truths``: tests of nodes: constants, their truth, nodes that are truths.
* ``chains``: rewrites of AND and OR.
* ``predicates``: rewrites of NOT, IF, COALESCE, comparisons and IN.
* ``rewriter``: applying the rewrites until nothing changes; the conditions of a filter.
* ``intervals``: the intervals of values that a condition allows, for sorted indexes.
* ``keybounds``: the SOW keys that a filter can match.
"""
