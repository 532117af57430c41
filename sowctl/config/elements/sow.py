"""The element table of SOW: topics, views, conflated topics and queues (``sow-config(5)``, SOW)."""

from __future__ import annotations

from sowctl.config.elements.element import Element

_TOPIC_AS_NAME = (("Topic", "D002"),)
NAME = Element("Name", "1", "string", missing="S020", synonyms=_TOPIC_AS_NAME)
MESSAGE_TYPE = Element("MessageType", "1", "string", missing="S021")
HASH_INDEX = Element("HashIndex", "0..n", "section", children=(Element("Key", "1..n", "field", missing="S031"),))

KEY_GENERATOR = Element(
    "KeyGenerator",
    "0..1",
    "section",
    children=(Element("Module", "1", "string", missing="S033"), Element("Options", "0..1", "opaque")),
)
HISTORY = Element(
    "History",
    "0..1",
    "section",
    children=(
        Element("Window", "1", "interval", missing="S030"),
        Element("Granularity", "1", "interval", missing="S030"),
    ),
)

TOPIC = Element(
    "Topic",
    "0..n",
    "section",
    synonyms=(("TopicDefinition", "D001"),),
    children=(
        NAME,
        MESSAGE_TYPE,
        Element("Key", "0..n", "field"),
        Element("KeyDomain", "0..1", "string", default="Name"),
        KEY_GENERATOR,
        Element("FileName", "0..1", "path"),
        Element(
            "Durability",
            "0..1",
            "enum",
            default="persistent",
            values=("persistent", "transient"),
            rule="S023",
            synonyms=(("Duration", "D007"),),
        ),
        Element("RecoveryPoint", "0..1", "recovery", default="epoch", rule="S024"),
        Element("Expiration", "0..1", "expiration", default="disabled"),
        Element("SlabSize", "0..1", "bytes", default="5MB", high="1GB", bounds="S040"),
        Element("InitialSlabCount", "0..1", "count", default="1", low="1", high="1024", bounds="S041"),
        HASH_INDEX,
        Element("Index", "0..n", "field"),
        Element("ExpectedKeyCountHint", "0..1", "count"),
        HISTORY,
        Element(
            "Preprocessing",
            "0..1",
            "section",
            children=(Element("Field", "1..n", "preprocessing", missing="S032"),),
        ),
        Element("Enrichment", "0..1", "section", children=(Element("Field", "1..n", "enrichment", missing="S032"),)),
        Element("Pattern", "0..1", "regex"),
        Element("RecordSize", "0..1", "bytes", default="512", retired="D008"),
        Element("InitialSize", "0..1", "count", default="2048", retired="D008"),
        Element("IncrementSize", "0..1", "count", default="1000", low="1", bounds="S028", retired="D008"),
    ),
)

VIEW = Element(
    "View",
    "0..n",
    "section",
    synonyms=(("ViewDefinition", "D003"),),
    children=(
        NAME,
        MESSAGE_TYPE,
        Element(
            "UnderlyingTopic", "1", "mixed", missing="S037", children=(Element("Join", "1..n", "join", missing="S037"),)
        ),
        Element(
            "Projection",
            "1",
            "section",
            missing="S037",
            children=(Element("Field", "1..n", "projection", missing="S037"),),
        ),
        Element(
            "Grouping", "1", "section", missing="S037", children=(Element("Field", "1..n", "grouping", missing="S037"),)
        ),
        Element("KeyDomain", "0..1", "string", default="Name"),
        Element("Conflation", "0..1", "enum", default="none", values=("none", "inline"), rule="S048"),
        Element("Filter", "0..1", "filter:view"),
        HASH_INDEX,
        Element("JoinNullEquivalency", "0..1", "switch", default="disabled", rule="S048"),
        Element("FileName", "0..1", "path", retired="D015"),
    ),
)

CONFLATED_TOPIC = Element(
    "ConflatedTopic",
    "0..n",
    "section",
    synonyms=(("ReplicaDefinition", "D005"),),
    children=(
        NAME,
        Element("UnderlyingTopic", "1", "string", missing="S039"),
        MESSAGE_TYPE,
        Element("Interval", "0..1", "interval", default="5s", low="100ms", bounds="S042"),
        Element("Filter", "0..1", "filter:conflated"),
        HASH_INDEX,
        Element(
            "Enrichment",
            "0..1",
            "section",
            children=(Element("Field", "1..n", "enrichment:conflated", missing="S032"),),
        ),
        Element("TopicFormat", "0..1", "string"),
    ),
)

_QUEUE = (
    NAME,
    MESSAGE_TYPE,
    Element("UnderlyingTopic", "0..1", "regex", default="Name"),
    Element("DefaultPublishTarget", "0..1", "string", default="UnderlyingTopic"),
    Element("LeasePeriod", "0..1", "interval"),
    Element(
        "Semantics",
        "0..1",
        "enum",
        default="at-least-once",
        values=("at-least-once", "at-most-once"),
        rule="S047",
    ),
    Element("MaxBacklog", "0..1", "count"),
    Element("MaxPerSubscriptionBacklog", "0..1", "count", default="1"),
    Element("Expiration", "0..1", "expiration:queue"),
    Element(
        "ExpirationModel",
        "0..1",
        "enum",
        default="default",
        values=("queue", "latest", "earliest", "default"),
        rule="S048",
    ),
    Element("Filter", "0..1", "filter:queue"),
    Element("RecoveryPoint", "0..1", "recovery:queue", default="epoch", rule="S024"),
    Element("FairnessModel", "0..1", "enum", values=("fast", "round-robin", "proportional"), rule="S048"),
    Element("Leasing", "0..1", "enum", default="sublet", values=("strict", "sublet"), rule="S048"),
    Element("MaxDeliveries", "0..1", "count", default="0"),
    Element("MaxCancels", "0..1", "count", default="0"),
    Element("Priority", "0..1", "priority"),
    Element("BarrierExpression", "0..1", "filter:barrier"),
    Element("FileBackedMetadata", "0..1", "enum", values=("enabled",), rule="S049"),
    Element("TargetQueueDepth", "0..1", "count", low="1000", bounds="S045"),
    Element("DeferredAckExpiration", "0..1", "interval", default="1d"),
    Element("InitialOwner", "0..1", "string"),
    Element("GroupLocalQueueDomain", "0..1", "string"),
)
QUEUE = Element("Queue", "0..n", "section", children=_QUEUE, synonyms=(("QueueDefinition", "D004"),))
LOCAL_QUEUE = Element("LocalQueue", "0..n", "section", children=_QUEUE)
GROUP_LOCAL_QUEUE = Element("GroupLocalQueue", "0..n", "section", children=_QUEUE)

SOW = Element(
    "SOW",
    "0..1",
    "section",
    synonyms=(("TopicMetaData", "D006"),),
    children=(TOPIC, VIEW, CONFLATED_TOPIC, QUEUE, LOCAL_QUEUE, GROUP_LOCAL_QUEUE),
)
