"""Subscriptions: the records at one instant, then their changes, and the position to continue from after a restart.

In the order of processing:

* ``bookmarks``: texts that name a position or a range of the journal, as values.
* ``spans``: such values resolved to entries of a journal.
* ``interest``: the options of a subscription per topic, compiled and checked.
* ``control``: control lines for a running subscription.
* ``replay_start``: the start of a subscription with a bookmark: entries, and the states before them.
* ``topic_states``: the states of several topics at one txid.
* ``waker``: waiting until something new may exist.
* ``journal_tail``: all entries after a txid, even if journal files are moved or removed.
* ``storetail``: changes of a store without a journal.
* ``derived_rows``: changes of the rows of a view.
* ``changes``: the followed entries of a block, as stored values.
* ``replay``: the replayed entries, and the end of the replay.
* ``pace``: the rate of a replay.
* ``feeds``: build the events of one topic from its changes.
* ``held_values``: the values that a subscriber has, in bounded memory.
* ``followed_topics``: the feed of a topic, and the source of its changes.
* ``new_topics``: topics that match a pattern and get their first message after the subscription started.
* ``events``: the events of subscribers.
* ``conflation``: at most one message per key in each interval.
* ``spool``: events that are produced and not consumed yet.
* ``limits``: intervals and buffer sizes.
* ``subscription``: a complete subscription: start, run, end.
* ``bookmark_stores``: stored positions of subscriptions.
"""
