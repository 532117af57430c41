"""The row evaluator, which defines every result, in the order in which a tree becomes a loop over rows.

* ``emitter``: nodes to Python code.
* ``predicates``: comparisons, lists and patterns to Python code.
* ``code``: pieces of generated code: operands, lines, slots.
* ``runtime``: the names that generated code can use.
* ``arithmetic``: arithmetic on scalars.
* ``comparison``: comparisons of arrays and scalars.
* ``program``: the generated loop, and the fields that it reads.
* ``projection``: projections with grouping.
* ``constructedfields``: constructed fields of preprocessing and enrichment.
* ``groups``: groups of a projection: accumulators, and the last message.
* ``retraction``: messages that are added to groups and removed one by one; groups as bytes.
* ``slotcodec``: slot values as bytes.
* ``joinplan``: the joins of views: which records match.
"""
