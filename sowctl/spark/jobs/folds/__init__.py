"""Folding a journal on executors: the last entry of each key, in stores' order (``sowctl-pipeline(1)``).

In the order of processing:

* ``fold_layout``: the number of map tasks, key ranges and shuffles of a fold, from sizes alone.
* ``runs``: a topic's entries of one part of the journal and one range of keys.
* ``run_spool``: ranges of one task, on its disk.
* ``distributed_fold``: the last entry of each key, from the runs of all parts.
* ``two_pass_fold``: the same in two passes without a shuffle, for a store whose keys fit in the driver.
* ``key_sample``: the records whose keys a fold checks.
"""
