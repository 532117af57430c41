"""Feeds: what the changes of a topic mean to one subscriber of it. The first is the simplest; the others go beyond it.

* ``feed``: every message that passes the filter.
* ``focus``: what leaves the result too, or only what has changed; ``delta``: what has changed of a message.
* ``page``: a page of an ordered result; ``order``: the result in order.
* ``aggregate``: groups of records.
"""
