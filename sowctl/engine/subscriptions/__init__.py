"""Following topics: the records at one instant, then what happens to them, and where to go on after a restart.

In the order in which data passes:

* ``bookmarks``: the texts that name a place or a range of the log, as values.
* ``spans``: such a value against a journal: the entries that it means.
* ``interest``: what is followed of each topic, compiled and checked; ``control``: what a running one is told.
* ``replay_start``: where a subscription with a bookmark begins: entries, and the states before them.
* ``topic_states``: the states of several topics at one txid.
* ``waker``: waiting until there may be something new.
* ``journal_tail``: the journal from a txid on, whatever becomes of its files.
* ``storetail``: a store without a journal from a state on; ``derived_rows``: the rows of a view, compared.
* ``changes``: the entries of a block that are followed, as stored values.
* ``replay``: which of them belong to a replay, when they go, where it ends; ``pace``: how fast.
* ``feeds``: what changes mean to a subscriber of one topic, a room of its own; ``held_values``: what subscribers hold.
* ``followed_topics``: the feed of a topic, and where its changes come from.
* ``new_topics``: topics of a pattern that nobody had published to when the subscription began.
* ``events``: what a subscriber is told; ``conflation``: not more often than in every interval.
* ``spool``: events that were read and not taken yet.
* ``limits``: pauses, and sizes of what is held.
* ``subscription``: all of it together: begun, driven, ended; ``iteration``: how a program goes through one.
* ``bookmark_stores``: where subscriptions go on after a restart.
"""
