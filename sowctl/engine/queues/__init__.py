"""Message queues: what of the journal is still to be processed, and who has it now. In the order in which data passes:

* ``definition``: which queue is meant, what of its configuration decides what is in it.
* ``expressions``: Filter, Priority and BarrierExpression over the messages of a block.
* ``backlog``: new entries of the journal into the state: messages, acknowledgements.
* ``recovery``: where a queue begins, and its state made anew from the journal.
* ``fairness``: how messages are shared among those who ask.
* ``settlement``: how a message leaves the queue or returns to it; the entries that say so.
* ``handles``: what names a message and its lease.
* ``leases``: leasing, acknowledging, cancelling, renewing; barriers, which hold up all messages behind them.
* ``message_reader``: the payloads of messages, from the blocks in which they lie.
* ``returns``: leases, delays and lifetimes that end.
* ``presence``: which workers live.
* ``queue_change``, ``change_runner``: one change of a queue: locks, catching up, what fell due, the change, its journal
  entries.
* ``queue``: an opened queue; what commands and the Python API call.
* ``queue_source``: what is not leased, as a source for queries and views.
* ``reports``: depth, rates and holders, as reports.
* ``summary``: what ``info`` says of a queue without changing anything.
* ``verification``: the state against the journal, for ``check``.
* ``worker``: processes that run a command for each message.

A queue is never the only truth about its messages: payloads and acknowledgements are in the journal. Leases and the
counters of deliveries are in the state file alone (``sow-queue(5)``).
"""
