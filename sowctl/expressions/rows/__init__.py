"""The row evaluator, which defines every result, in the order in which a tree becomes a loop over rows.

* ``emitter``: nodes to Python code.
* ``predicates``: comparisons, lists and patterns to Python code.
* ``code``: pieces of generated code: operands, lines, slots.
* ``runtime``: the names that generated code can use.
* ``arithmetic``: arithmetic on scalars.
* ``comparison``: comparisons of arrays and scalars.
* ``program``: the generated loop, and the fields that it reads.
* ``projection``: projections with grouping.
* ``aggregates``: aggregate functions over the inputs of a group.
* ``constructedfields``: constructed fields of preprocessing and enrichment.
* ``retraction``: groups that messages can be removed from.
* ``sums``: sums that inputs can be removed from.
* ``countedinputs``: counted inputs, for aggregates such as MIN that inputs can be removed from.
* ``slotcodec``: slot values as bytes.
* ``joinplan``: the joins of views: which records match.
"""
