"""The engine: the verbs on topics, stores and journals. Plain values in and out; it neither prints nor exits.

From the top layer to the shared values; each package imports only packages below it:

* ``api``: the objects that ``sowctl.open`` returns: an instance whose topics have verbs as methods.
* ``verbs``: one module per verb.
* ``tables``: topics, histories and the journal as tables of DuckDB.
* ``maintenance``: search, checks, compaction, retention, backup and repair of stores and journals.
* ``queues``: message queues: pending messages, leases, workers.
* ``subscriptions``: from a position in the journal to the events of a subscriber.
* ``views``: opening the source of any target; views and conflated topics.
* ``bulk``: writes of many tasks, published by one commit.
* ``writing``: from an input to acknowledged entries, batch by batch.
* ``keys``: from messages to SOW keys.
* ``search``: from a query to the matching records, in the requested order.
* ``profile``: statistics of payloads: paths, types, distinct values, quantiles, messages per interval.
* ``extensions``: functions that a configuration's Modules add to the expression language.
* ``sources``: a topic's state now or at an instant, as records in key order.
* ``fold``: from journal entries to stored records.
* ``topics``: targets and topics of a configuration, and the positions of stores and journals.
* ``instance``: the opened instance.
* ``options``: options of verbs.
* ``reports``: results of verbs.
* ``records``: batches of records that verbs return.
"""
