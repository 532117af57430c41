"""The state file of a queue: pending, leased and delayed messages of the journal (``sow-queue(5)``).

In the order of processing:

* ``page``: up to 256 consecutive messages of a queue, by columns.
* ``values``: the other rows: state and counters, lease holders, barriers, dead messages.
* ``file``: the file: opening, locking, replacing; one change at a time.
* ``rows``: the rows that one change reads and writes: pages, and their indexes.

The file is small and derived: the pending messages follow from the journal. Only leases and delivery counters exist
nowhere else, so a damaged file is an error and is not rebuilt silently.
"""
