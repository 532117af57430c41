"""Field values: paths, comparison, NULL, order, times, units. Independent of files and message types.

* ``paths``: field identifiers as steps.
* ``fields``: the contract between message types and expressions: requested slots and their values.
* ``scalars``: NULL, numeric reading, text, truth, comparison.
* ``order``: the common reading of a set, and sort keys.
* ``depth``: the nesting limit of messages.
* ``jsontree``: JSON text as values that keep numbers as written.
* ``textspans``: texts in one buffer, and numbers with such texts, made on demand.
* ``column``: columns of slot values in Arrow's layout.
* ``batch``: a batch of messages by columns.
* ``differences``: the differences between two messages.
* ``rawmembers``: the members of a JSON object with their bytes.
* ``unique_members``: the proof that what msgspec decoded has no duplicate member.
* ``jsonline``: rows of this program - errors, reports, rejects, progress - as lines of JSON.
* ``times``: instants to text and back, and the clock.
* ``units``: texts of intervals, sizes, counts and switches.
* ``display``: durations, ages, sizes, rates and numbers as text for people.
* ``topicref``: the name and the message type of a topic.
"""
