"""Statistics of the fields and values of records, in bounded memory; used by ``schema`` and ``stats``.

In the order of processing:

* ``sample``: a sample of the records, the same in every run.
* ``trees``: payloads as trees of plain values.
* ``path_profile``: the paths of these trees: types, frequencies, values.
* ``hyperloglog``: an estimate of the number of distinct values.
* ``tally``: the values of a path and their frequencies: exact up to a limit, estimated beyond.
* ``number_profile``: minimum, maximum, mean, quantiles and histogram of the numbers of a path.
* ``jsonschema``: the JSON Schema of profiled messages.
* ``rates``: journal entries per interval, by topic and by client.
"""
