"""The row evaluator, which defines every result: compiles a tree to a loop over rows.

* ``emitter``: compiles nodes to Python code.
* ``predicates``: compiles comparisons, lists and patterns to Python code.
* ``code``: pieces of generated code: operands, lines, slots.
* ``runtime``: the names that generated code can use.
* ``arithmetic``: arithmetic on scalars.
* ``comparison``: comparisons of arrays and scalars.
* ``program``: the generated loop, and the fields that it reads.
* ``projection``: projections with grouping.
* ``constructedfields``: constructed fields of preprocessing and enrichment.
* ``groups``: groups of a projection: accumulators, and the last message.
* ``retraction``: adding and removing individual messages of groups; groups as bytes.
* ``slotcodec``: slot values as bytes.
* ``joinplan``: the joins of views: which records match.
"""
