"""Bookmark stores (``behaviour`` 9): where subscriptions go on after a restart. In the order in which data passes:

* ``progress``: one subscription: what was delivered, what is acknowledged, how far that reaches without a gap.
* ``place``: the same for the events of a program.
* ``protocol``: what every store does, and the values that stores take and give.
* ``store_list``: the list of files of places that an instance's subscriptions use.
* ``place_lock``: one run at a time for a place.
* ``write_buffer``: in front of a store, so that it is written now and then instead of for each message.
* ``topic``, ``file``: the kinds: a row in a SOW topic, a file of its own.
* ``filecodec``: the bytes of that file.
* ``store_kinds``: the table of kinds, and which of them a text names.
"""
