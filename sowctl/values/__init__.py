"""Field values: paths, comparison, NULL, order, times, units. Knows no file and no message type.

* ``topicref``: the name and the message type of a topic
* ``paths``: field identifiers as steps
* ``fields``: the contract between message types and expressions: slots asked for, values handed over
* ``scalars``: scalars: NULL, numeric reading, text, truth, comparison
* ``order``: the common reading of a set, and sort keys
* ``jsontree``: JSON text as values that keep what it says; ``differences``: what differs between two of them
* ``rawmembers``: the members of a JSON object with their bytes
* ``times``: instants to text and back, and the clock
* ``units``: intervals, sizes, counts and switches as they are written
* ``display``: durations, ages, sizes, rates and numbers as people read them
"""
