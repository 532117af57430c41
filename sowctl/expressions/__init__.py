"""The expression language (``sowctl-expressions(7)``): from the text of a filter to the messages that match.

In the order in which a text is processed:

* ``syntax``: lexer, LALR parser, the tree of nodes, patterns, select lists, joins.
* ``context``: the places where an expression can occur.
* ``checker``: checks of an expression in its place.
* ``functions``: the functions by group, with the table of the manual page.
* ``aggregates``: the aggregate functions, an accumulator for each, with their table.
* ``rows``: the row evaluator, which defines every result: it compiles nodes to Python code over rows.
* ``rewrites``: simpler equivalent expressions, conditions, and bounds for indexes.
* ``translation``: texts of other languages, as suggestions in errors.
* ``remarks``: remarks on filters whose meaning differs from SQL.
* ``compiler``: texts to filters, values, projections and constructed fields.
* ``columns``: the columnar evaluator over columns of values; its results equal those of the row evaluator.
* ``environment``: the inputs of an expression besides the message: clock, names, a record's header.

The tables of this package are the source of the manual page (:mod:`sowctl.cli.manual.expressionpage`).
"""
