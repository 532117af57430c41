"""Pages of the rules about one value: its type, its words, its range."""

from __future__ import annotations

PAGES: dict[str, str] = {
    "S010": """What: the Type of a Transport is not known.

        Why: a server refuses it.
        Example: ``<Type>websocket</Type>``.
        Instead: write tcp, tcps, amps-replication, amps-replication-secure or amps-unix; websocket is a Protocol.
        """,
    "S011": """What: an InetAddr is not an address, or its port is not between 1 and 65535.

        Why: it cannot be listened on or connected to.
        Example: ``<InetAddr>localhost</InetAddr>``.
        Instead: ``9007``, ``localhost:9007`` or ``[::1]:9007``.
        """,
    "S015": """What: SecureSocketProtocols contains a word that is not a TLS version.

        Why: the list is separated by spaces; with commas it is one unknown word.
        Example: ``TLSv1.2,TLSv1.3``.
        Instead: ``TLSv1.2 TLSv1.3``.
        """,
    "S023": """What: Durability is neither persistent nor transient.

        Why: there are only the two.
        Example: ``<Durability>permanent</Durability>``.
        Instead: ``persistent`` or ``transient``.
        """,
    "S024": """What: RecoveryPoint has an invalid value.

        Why: it determines where an instance starts to read its journal.
        Example: ``<RecoveryPoint>yesterday</RecoveryPoint>``.
        Instead: ``epoch``, ``now``, a timestamp or a bookmark; for a queue also ``creation``.
        """,
    "S025": """What: Expiration is a word other than enabled and disabled.

        Why: a topic accepts an interval or one of these two words, a queue only an interval.
        Example: ``<Expiration>never</Expiration>``.
        Instead: ``30s``, ``enabled`` or ``disabled``.
        """,
    "S026": """What: a value is not an interval; a bare number is a warning.

        Why: the unit is required; for a bare number none is documented, and seconds are assumed here.
        Example: ``<Expiration>5min</Expiration>``, ``<Age>7 days</Age>``.
        Instead: a number with ns, us, ms, s, m, h, d or w: ``5m``, ``7d``.
        """,
    "S027": """What: a value is not a size in bytes.

        Why: a size with an unknown unit or a sign has no meaning.
        Example: ``<SlabSize>10XB</SlabSize>``.
        Instead: a number with kb, mb, gb, tb or no unit: ``10MB``.
        """,
    "S028": """What: a value is not a whole number.

        Why: the element is a count.
        Example: ``<MaxBacklog>many</MaxBacklog>``.
        Instead: ``5000`` or ``5k``; for a separator the code of its byte, such as ``59``, never 61 (=).
        """,
    "S029": """What: a value is not a switch.

        Why: it is unclear whether it is on or off.
        Example: ``<VerifyClient>yes</VerifyClient>``.
        Instead: ``true`` or ``false``, ``enabled`` or ``disabled``.
        """,
    "S040": """What: SlabSize is above 1 GB.

        Why: that is the documented maximum.
        Example: ``<SlabSize>2GB</SlabSize>``.
        Instead: several times the largest message; the default of 5MB fits most topics.
        """,
    "S041": """What: InitialSlabCount is not between 1 and 1024.

        Why: that is the documented range.
        Example: ``<InitialSlabCount>2000</InitialSlabCount>``.
        Instead: a number in the range; 1 is the default.
        """,
    "S042": """What: the Interval of a ConflatedTopic is below 100 ms.

        Why: that is the documented minimum.
        Example: ``<Interval>10ms</Interval>``.
        Instead: ``100ms`` or more; to get every update, subscribe to the source itself.
        """,
    "S043": """What: FlushInterval is not between 1 us and 1000 ms.

        Why: that is the documented range.
        Example: ``<FlushInterval>5s</FlushInterval>``.
        Instead: a value in the range; 100ms is the default.
        """,
    "S044": """What: JournalSize is below 10 MB.

        Why: a server uses 10 MB instead and warns.
        Example: ``<JournalSize>1MB</JournalSize>``.
        Instead: ``10MB`` while developing, 250 MB to 2 GB in production.
        """,
    "S045": """What: TargetQueueDepth is below 1000.

        Why: that is the documented minimum.
        Example: ``<TargetQueueDepth>100</TargetQueueDepth>``.
        Instead: 1000 or more.
        """,
    "S046": """What: PreallocatedJournalFiles is zero.

        Why: at least one journal file must exist.
        Example: ``<PreallocatedJournalFiles>0</PreallocatedJournalFiles>``.
        Instead: 1 or more; 2 is the default.
        """,
    "S047": """What: the Semantics of a queue are not known.

        Why: there are only the two.
        Example: ``<Semantics>at_least_once</Semantics>``.
        Instead: ``at-least-once`` or ``at-most-once``, with hyphens.
        """,
    "S048": """What: FairnessModel, ExpirationModel, Leasing, Conflation or JoinNullEquivalency has an unknown value.

        Why: each has a short list of words.
        Example: ``<FairnessModel>fair</FairnessModel>``.
        Instead: one of the words that the message lists.
        """,
    "S049": """What: FileBackedMetadata has a value other than enabled.

        Why: that is its only value; without the element the feature is off.
        Example: ``<FileBackedMetadata>disabled</FileBackedMetadata>``.
        Instead: ``enabled``, or remove the element.
        """,
    "S052": """What: the Field of a struct message type is not a name with a format.

        Why: the layout of the bytes is unknown.
        Example: ``<Field>/price = z</Field>``.
        Instead: ``/name = [order][count]code`` with a code of ``xcbB?hHiIlLqQnNfdsSp``, such as ``/price = d``.
        """,
    "S061": """What: a log level is not known.

        Why: the target would log nothing, or everything.
        Example: ``<Level>warn</Level>``.
        Instead: none, developer, trace, stats, info, warning, error, critical or emergency.
        """,
    "S062": """What: a Logging Target without a known Protocol.

        Why: it determines the destination of the log.
        Example: ``<Protocol>console</Protocol>``.
        Instead: stdout, stderr, file, gzip or syslog.
        """,
    "S063": """What: a pattern of names is not a regular expression.

        Why: it cannot match anything. The rule applies to Pattern, in names of the journal and of replication, in the
        UnderlyingTopic of a queue, in PassThrough, AnonymousPaths, and in the Topic of some actions.
        Example: ``<Pattern>^/orders/[a-z</Pattern>``.
        Instead: close the bracket or escape it; patterns are PCRE and match anywhere in the name.
        """,
    "S067": """What: a file mask is not octal.

        Why: it gives the permissions of a file.
        Example: ``<MiniDumpFileMask>rw-r-----</MiniDumpFileMask>``.
        Instead: three or four octal digits: ``0640``.
        """,
    "S068": """What: ClientMaxCapacity is not a percentage from 0 to 100.

        Why: it is a share of a limit.
        Example: ``<ClientMaxCapacity>150%</ClientMaxCapacity>``.
        Instead: ``50%``.
        """,
    "S070": """What: ExcludeValidation names a check that does not exist, or that cannot be skipped.

        Why: the checks queue and queue_underlying always run.
        Example: ``<ExcludeValidation>queue</ExcludeValidation>``.
        Instead: a list of txlog, replicate, sow, cascade, keys, replicate_filter, queue_passthrough.
        """,
    "S071": """What: the Interval of Admin is below 1 s.

        Why: that is the documented minimum.
        Example: ``<Interval>100ms</Interval>``.
        Instead: ``1s`` or more; 10s is the default.
        """,
    "S072": """What: O_DIRECT is neither enabled nor disabled.

        Why: there are only the two.
        Example: ``<O_DIRECT>off</O_DIRECT>``.
        Instead: ``enabled``, which is the default, or ``disabled``.
        """,
    "S073": """What: QueueDeliveryFlushInterval is below 1 us.

        Why: that is the documented minimum.
        Example: ``<QueueDeliveryFlushInterval>10ns</QueueDeliveryFlushInterval>``.
        Instead: ``1us`` or more; 250us is the default.
        """,
    "S074": """What: AMPSVersionCompliance is not 2, 4 or 5.

        Why: these are the protocol versions that have different header fields.
        Example: ``<AMPSVersionCompliance>3</AMPSVersionCompliance>``.
        Instead: remove it, or write ``4``, the default.
        """,
}
