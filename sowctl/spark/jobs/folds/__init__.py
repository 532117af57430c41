"""Folding a journal on executors: the last entry of each key, in stores' order (``sowctl-pipeline(1)``).

In the order in which data passes:

* ``fold_layout``: into how many maps, ranges of keys and shuffles a fold is cut, from sizes alone
* ``runs``: a topic's entries of one stretch of the journal and one range of keys
* ``run_spool``: ranges that one task has, on its disk
* ``distributed_fold``: the last entry of each key, out of the runs of all stretches
* ``two_pass_fold``: the same without a shuffle, in two looks, for a store whose keys the driver can hold
* ``pairfiles``: the files of keys and values that tasks leave for others
"""
