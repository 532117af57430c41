"""Parses a text to a tree; modules in the order in which a text is processed.

* ``lexer``: tokens; the meaning of a slash.
* ``foreign_tokens``: tokens of other languages, for suggestions.
* ``lalr``: the tables of the parser, generated.
* ``tables``: the generator of these tables from ``grammar.lark``.
* ``driver``: the parser that runs these tables.
* ``actions``: the nodes that each grammar rule builds.
* ``parser``: parsing expressions, filters, fields, projections, groupings, orders.
* ``nodes``: the nodes of the tree, their equality and canonical text.
* ``trees``: walking and changing trees.
* ``patterns``: patterns of LIKE and of functions, compiled.
* ``selectlist``: select lists, which have their own lexical rules.
* ``joins``: join conditions, which have their own lexical rules.
* ``errors``: the error codes, and errors with their position in the text.
"""
