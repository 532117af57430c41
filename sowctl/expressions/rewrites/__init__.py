"""Analysis of an expression without any message: cheaper forms, conditions, bounds.

* ``truths``: constants, their truth, and what is a truth already
* ``chains``, ``predicates``: the rewrites, each from a node to a node or None
* ``rewriter``: folds constants, and applies all of them until nothing changes; the conditions that a filter demands
* ``intervals``, ``keybounds``: the values that a condition leaves to a field, for indexes and pages that are passed
  over
"""
