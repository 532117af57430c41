"""The expression language (``sowctl-expressions(7)``): from the text of a filter to the messages that match.

In the order in which a text passes:

* ``syntax``: tokens, LALR driver, the tree of nodes, patterns; select lists and joins, which are no expressions
* ``context``, ``checker``: where an expression stands, and what is refused there
* ``functions``: the functions by group, with the table that the manual page is made from
* ``rows``: the row evaluator, which defines every result: nodes to Python, run over rows of slot values; projections
  with grouping, constructed fields, joins of records
* ``rewrites``: what can be told without a message: cheaper forms, conditions, bounds for indexes
* ``compiler``: the door: texts to filters, values, projections and constructed fields
* ``columns``: the columnar evaluator over numpy columns, with the results of the row evaluator; explanations
* ``environment``: what an expression may know besides the message: clock, names, a record's header

The page is made of this room's tables by :mod:`sowctl.cli.manual.expressionpage`.
"""
