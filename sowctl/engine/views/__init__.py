"""Views: messages made of the records of topics, by joins, filter and grouping (``behaviour`` 5.1, 5.2); conflated
topics: messages of a topic that change once in an interval (``behaviour`` 5.3).

In the order in which data passes:

``opening``     the door for readers: the source of a target, derived or not
``moment``      every topic that an entry reads, as of one instant
``definition``  a view, compiled: its sources, joins and projection
``records``     the records of a source that the view reads
``joins``       rows of records that belong together
``groups``      rows of one group, and the message that they make
``computing``   all of a view, from all records of its sources
``columnar``    the same of many rows at once
``collecting``  no search for cycles meanwhile
``view``        a view as a source: from its cache, or computed
``cache``       where the cache of a view lies, and what it says of itself (sow-view(5))
``refreshing``  a cache at a moment: as it is, caught up, or made anew
``costs``       when to catch up, when to compute everything, when to keep rows
``upkeep``      what changed records mean for rows, groups and messages
``building``    a cache made from all records
``tables``      what a cache keeps to catch up, as keys and values
``timeline``    what happened to a topic, in the order of time
``conflating``  the rule of conflation, from changes to changes
``outputs``     what a conflated topic makes of the messages that it shows
``rowchanges``  how the rows of a view changed as time went
``histories``   the changes of whatever a conflated topic copies
``kept``        what a kept state of a conflated topic says of itself; ``seen``: a source that no journal records
``keeping``     the kept state of a conflated topic, advanced to the clock (sow-view(5))
``conflated``   a conflated topic as a source: from its kept state, or computed
"""
