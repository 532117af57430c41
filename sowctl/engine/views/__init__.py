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
``view``        a view as a source
``timeline``    what happened to a topic, in the order of time
``conflating``  the rule of conflation, from changes to changes
``outputs``     what a conflated topic makes of the messages that it shows
``conflated``   a conflated topic as a source
"""
