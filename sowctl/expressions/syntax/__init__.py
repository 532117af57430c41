"""From a text to a tree, in the order in which a text passes.

* ``lexer``: tokens; what a slash means
* ``lalr``: the parser's tables, made from ``grammar.lark`` by ``tables``
* ``driver``: the parser over these tables; ``actions``: what it builds for each rule
* ``parser``: the kinds of texts: expressions, filters, fields, projections, groupings, orders
* ``nodes``: the tree, its equality and its canonical text; ``trees``: walking and changing it
* ``patterns``: patterns of LIKE and the functions, compiled
* ``selectlist``, ``joins``: select lists and join conditions, which have lexical rules of their own
* ``errors``: the codes, and errors that show their place in the text
"""
