"""Fold a journal on executors: the last entry of each key, in the order of stores (``sowctl-pipeline(1)``).

In the order of processing:

* ``fold_layout``: the number of map tasks, key ranges and shuffles of a fold, computed from sizes only.
* ``runs``: a topic's entries of one part of the journal and one range of keys.
* ``run_spool``: the runs of one task, spilled to its local disk.
* ``distributed_fold``: the last entry of each key, from the runs of all parts.
* ``two_pass_fold``: the same in two passes without a shuffle, for journals whose keys fit in the driver's memory.
* ``key_sample``: selection of the records whose keys a fold checks.
"""
