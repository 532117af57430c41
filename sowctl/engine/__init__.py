"""The engine: the verbs over topics, stores and journals. Plain values in and out; nothing here prints or exits.

From what a program calls down to what all rooms share; each room imports only rooms below it:

* ``api``: what ``sowctl.open`` gives: an instance whose topics have verbs as methods.
* ``verbs``: one file per verb, where the rooms meet.
* ``maintenance``: stores and journals looked after: searched, checked, mended, packed, kept, removed.
* ``queues``: what of the log is still to be processed, and who has it now.
* ``subscriptions``: from a place in the log to what a subscriber is told.
* ``views``: the door for whatever a reader names, and the views behind it: joined and grouped records of topics.
* ``bulk``: writes of many tasks, published by one commit.
* ``writing``: from an input to acknowledged entries, batch by batch.
* ``keys``: from messages to SOW keys.
* ``search``: from a query to the records that match, in the order asked for.
* ``profile``: from payloads to figures: paths, types, distinct values, quantiles, messages per minute.
* ``extensions``: functions that a configuration's Modules add to the expression language.
* ``sources``: a topic's state now or at an instant, as records in key order.
* ``fold``: from journal entries to stored records.
* ``topics``: what a configuration says of a topic, and where its store and the journal stand to each other.
* ``instance``, ``options``, ``reports``, ``records``: the values that the rooms share: the opened instance, what a verb
  is asked for, what it did, and the records that it hands out.
"""
