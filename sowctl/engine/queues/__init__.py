"""Message queues: pending messages of the journal, and their leases. In the order of processing:

* ``definition``: finding a queue by name; the digest of its configuration.
* ``expressions``: Filter, Priority and BarrierExpression over the messages of a block.
* ``backlog``: adds new entries of the journal to the state: messages, acknowledgements.
* ``recovery``: where a queue starts, and rebuilding its state from the journal.
* ``fairness``: sharing messages among subscribers.
* ``settlement``: removing or returning a message, and the journal entries for it.
* ``handles``: handles of messages and leases; outcomes of operations.
* ``leases``: leasing, acknowledging, cancelling, renewing.
* ``message_reader``: the payloads of messages, read from journal blocks.
* ``returns``: expired leases and messages, and delays that have ended.
* ``presence``: lock files of live workers.
* ``queue_change``: a change in progress: rows, instant, journal entries.
* ``change_runner``: the steps of every change: locks, new entries, returns, the change, its journal entries, the
  commit.
* ``queue``: an open queue, which commands and the Python API call.
* ``queue_source``: the unleased messages of a queue as a source for queries and views.
* ``reports``: reports of depth, rates and lease holders.
* ``summary``: the summary of a queue for ``info``, which changes nothing.
* ``verification``: the state compared with the journal, for ``check``.
* ``worker``: processes that run a command for each message.

The journal has the payloads and acknowledgements of a queue. Leases and delivery counters are only in the state file
(``sow-queue(5)``).
"""
