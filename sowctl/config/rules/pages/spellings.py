"""Pages of the rules about other and retired names that the element table knows."""

from __future__ import annotations

PAGES: dict[str, str] = {
    "D001": """What: TopicDefinition, the name of Topic before 5.0.

        Why: it is accepted, but no longer documented.
        Example: ``<TopicDefinition>...</TopicDefinition>`` in SOW.
        Instead: write Topic, and Name for the Topic inside it.
        """,
    "D002": """What: Topic in place of Name in an entry of SOW.

        Why: it is an accepted synonym, but only Name is documented, and Topic has other meanings too.
        Example: ``<Topic><Topic>orders</Topic></Topic>``.
        Instead: ``<Topic><Name>orders</Name></Topic>``.
        """,
    "D003": """What: ViewDefinition, the old name of View.

        Why: it is accepted, but no longer documented.
        Example: ``<ViewDefinition>...</ViewDefinition>``.
        Instead: write View.
        """,
    "D004": """What: QueueDefinition, the old name of Queue.

        Why: it is accepted, but no longer documented.
        Example: ``<QueueDefinition>...</QueueDefinition>``.
        Instead: write Queue.
        """,
    "D005": """What: ReplicaDefinition, the old name of ConflatedTopic.

        Why: it is accepted, but easily confused with replication, which is unrelated.
        Example: ``<ReplicaDefinition>...</ReplicaDefinition>``.
        Instead: write ConflatedTopic.
        """,
    "D006": """What: TopicMetaData, the container of topics before SOW.

        Why: it is accepted, but comes from examples of version 3.
        Example: ``<TopicMetaData><TopicDefinition>``.
        Instead: write SOW.
        """,
    "D007": """What: Duration in place of Durability in a Topic.

        Why: it is accepted, but was renamed in 4.0; two actions have an option Duration that is an interval.
        Example: ``<Duration>transient</Duration>``.
        Instead: write Durability.
        """,
    "D008": """What: RecordSize, InitialSize or IncrementSize in a Topic.

        Why: storage has been laid out in slabs since 5.0; the remaining effect of these is not documented.
        Example: ``<RecordSize>1024</RecordSize>``.
        Instead: SlabSize (RecordSize times IncrementSize), and InitialSlabCount.
        """,
    "D009": """What: MinJournalSize in place of JournalSize.

        Why: it is an accepted synonym.
        Example: ``<MinJournalSize>1GB</MinJournalSize>``.
        Instead: write JournalSize.
        """,
    "D014": """What: SOWStatsInterval in place of SOWStatisticsInterval.

        Why: the documentation has both spellings, and does not say which version accepts which.
        Example: ``<SOWStatsInterval>5s</SOWStatsInterval>``.
        Instead: write SOWStatisticsInterval, and check that ``/AMPS/SOWStats`` is published.
        """,
    "D015": """What: a View with FileName.

        Why: it is accepted but not used; a view is computed from its sources.
        Example: ``<View>...<FileName>./sow/v.sow</FileName></View>``.
        Instead: remove it.
        """,
}
