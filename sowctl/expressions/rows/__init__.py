"""The row evaluator, which defines every result, in the order in which a tree becomes a loop over rows.

* ``emit``: nodes to Python; ``predicates``: comparisons, lists and patterns; ``code``: the lines and slots
* ``runtime``: the names that generated code may use; ``arithmetic`` and ``comparing``: what it calls
* ``program``: the generated loop with what it asks of a message
* ``projection``: grouping, with ``aggregates``; ``construct``: fields of preprocessing and enrichment
* ``retraction``: groups that give messages back, of ``sums`` and ``counted`` inputs; ``packing``: their values as bytes
* ``joining``: which records of a view's topics meet
"""
