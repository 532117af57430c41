"""Views: messages made of the records of topics, by joins, filter and grouping (``behaviour`` 5.1, 5.2).

In the order in which data passes:

``openers``        the door for readers: the source of a target, derived or not
``instant``        every topic that an entry reads, as of one instant
``definition``     a view, compiled: its sources, joins and projection
``records``        the records of a source that the view reads
``joins``          rows of records that belong together
``groups``         rows of one group, and the message that they make
``computation``    all of a view, from all records of its sources
``column_groups``  the same of many rows at once
``group_spill``    groups that outgrow memory while all of it is computed
``gc_pause``       no search for cycles meanwhile
``view``           a view as a source: from its cache, or computed
``cache``          where the cache of a view lies, and what it says of itself (sow-view(5))
``cache_refresh``  a cache at a moment: as it is, caught up, or made anew
``costs``          when to catch up, when to compute everything, when to keep rows
``limits``         the figures of costs, and of what is held at a time
``upkeep``         what changed records mean for rows, groups and messages
``cache_build``    a cache made from all records
``tables``         what a cache keeps to catch up, as keys and values
``conflation``     conflated topics: a room of its own
"""
