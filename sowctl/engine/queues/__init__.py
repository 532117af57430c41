"""Message queues: pending messages of the journal, and their leases. In the order of processing:

* ``definition``: finding a queue by name; the digest of its configuration.
* ``expressions``: Filter, Priority and BarrierExpression over the messages of a block.
* ``backlog``: new entries of the journal into the state: messages, acknowledgements.
* ``recovery``: where a queue begins, and rebuilding its state from the journal.
* ``fairness``: sharing messages among subscribers.
* ``settlement``: removing or returning a message, and the journal entries for it.
* ``handles``: handles of messages and leases; outcomes of operations.
* ``leases``: leasing, acknowledging, cancelling, renewing.
* ``message_reader``: the payloads of messages, read from journal blocks.
* ``returns``: leases, delays and lifetimes that have ended.
* ``presence``: lock files of live workers.
* ``queue_change``: one change while it is made: rows, instant, journal entries.
* ``change_runner``: the steps of every change: locks, new entries, returns, the change, its journal entries, the
  commit.
* ``queue``: an opened queue, which commands and the Python API call.
* ``queue_source``: the unleased messages of a queue as a source for queries and views.
* ``reports``: reports of depth, rates and lease holders.
* ``summary``: the summary of a queue for ``info``, which changes nothing.
* ``verification``: the state compared with the journal, for ``check``.
* ``worker``: processes that run a command for each message.

The journal has the payloads and acknowledgements of a queue. Leases and the delivery counters are in the state file
alone (``sow-queue(5)``).
"""
