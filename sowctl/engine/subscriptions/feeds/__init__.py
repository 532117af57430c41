"""Feeds: from the changes of a topic to the events of one subscriber, from the simplest to the most complex.

* ``feed``: every message that matches the filter.
* ``focus``: also out-of-focus events, or changed fields only.
* ``delta``: the changed fields of a message.
* ``page``: a page of an ordered result.
* ``order``: an ordered result.
* ``aggregate``: groups of records.
"""
