"""The row evaluator, which defines every result, in the order in which a tree becomes a loop over rows.

* ``emitter``: nodes to Python; ``predicates``: comparisons, lists and patterns; ``code``: the lines and slots
* ``runtime``: the names that generated code may use; ``arithmetic`` and ``comparison``: what it calls
* ``program``: the generated loop with what it asks of a message
* ``projection``: grouping, with ``aggregates``; ``constructedfields``: fields of preprocessing and enrichment
* ``retraction``: groups that give messages back, of ``sums`` and ``countedinputs`` inputs; ``slotcodec``: their values
  as bytes
* ``joinplan``: which records of a view's topics meet
"""
