"""Feeds turn the changes of a topic into the events of one subscriber. From the simplest to the most complex:

* ``feed``: every message that matches the filter.
* ``focus``: also out-of-focus events, or deltas.
* ``delta``: the changed fields of a message.
* ``page``: a page of an ordered result.
* ``order``: an ordered result.
* ``aggregate``: groups of records.
"""
