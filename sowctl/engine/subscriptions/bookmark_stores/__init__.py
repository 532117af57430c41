"""Bookmark stores (``behaviour`` 9): where subscriptions continue after a restart. In the order of processing:

* ``progress``: delivered and acknowledged messages of one subscription, and its position.
* ``place``: the same for the events of a program.
* ``protocol``: the protocol of bookmark stores, and its values.
* ``store_list``: the list of bookmark store files that an instance's subscriptions use.
* ``place_lock``: a lock that lets one run at a time use a position.
* ``write_buffer``: a write buffer for a store, which writes the latest position at intervals.
* ``topic``: the store kind with a row in a SOW topic.
* ``file``: the store kind with a file of its own.
* ``filecodec``: the codec of the file format.
* ``store_kinds``: the table of store kinds; opening a store by name.
"""
