"""Analysis of an expression without a message: simpler forms, conditions, bounds.

* ``truths``: tests of nodes: constants, their truth value, nodes whose values are truth values.
* ``chains``: rewrites of AND and OR.
* ``predicates``: rewrites of NOT, IF, COALESCE, comparisons and IN.
* ``rewriter``: applies the rewrites until nothing changes; the conditions of a filter.
* ``intervals``: the intervals of values that a condition allows, for sorted indexes.
* ``keybounds``: the SOW keys that a filter can match.
"""
