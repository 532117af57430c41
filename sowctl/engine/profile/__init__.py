"""Figures of the fields and values of records, in bounded memory. In the order in which data passes:

* ``sample``: some of the records, the same ones in every run.
* ``trees``: payloads as values: objects, lists and scalars, as the language reads them.
* ``path_profile``: the paths of these values, their types, and how often each is there.
* ``hyperloglog``: how many different values there are, where they are too many to be held.
* ``tally``: the values of a path and how often each occurs: exact as long as they fit, estimated beyond.
* ``number_profile``: minimum, maximum, mean, quantiles and histogram of the numbers of a path; likewise.
* ``rates``: journal entries per interval, by topic and by publisher.

Called by the verbs ``schema`` and ``stats``.
"""
