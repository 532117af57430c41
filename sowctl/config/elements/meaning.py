"""What each element is for, in a line, and whether sowctl acts on it: for ``config schema`` and ``sow-config(5)``.

Kept apart from the rows, because no command needs it to work: only the schema and the manual page are made from it. A
line is looked up by the longest end of an element's path that has one.
"""

from __future__ import annotations

from functools import cache

from msgspec import Struct

_LINES = """
+ Name: the instance, in file names, journals and messages
+ Group: instances of one group are equivalent
. ProcessName: the name of a server's process
. Description: a remark for people
. Environment: a remark for people
. SuggestedMinimumVersion: a server below it warns
. RequiredMinimumVersion: a server below it does not start
. ConfigIncludeCommentDefault: whether a server marks included parts with comments
+ ConfigCycleDetectionThreshold: how large all files together may be
. ConfigValidation: whether a server checks types and ranges; sowctl always does
+ RegexTopicSupport: whether names of topics elsewhere than in SOW are patterns
. SOWStatisticsInterval: how often a server publishes statistics
. MessageMemoryLimit: memory for messages to slow clients; a tenth of the memory where absent
. MessageDiskLimit: disk for messages to slow clients; 1GB or MessageMemoryLimit where absent
. MessageDiskPath: the directory for messages to slow clients
. ClientMessageAgeLimit: a client is disconnected when its oldest message is older
. ClientMaxCapacity: the share of the limits that one client may use
. MiniDumpDirectory: a directory for crash dumps, or disabled
. MiniDumpFileMask: the permissions of crash dumps
. Admin: the monitoring interface of a server
. Admin/InetAddr: the address of the monitoring interface; none where absent
. Admin/FileName: the file of statistics
. Admin/Interval: how often statistics are taken
. Admin/WWWAuthenticate: the challenge to browsers; used with Authentication
. Admin/AnonymousPaths: paths that need no logon
. Header: a line added to answers
. ExternalInetAddr: the address as seen from outside
. AccessControlAllowOrigin: origins that browsers may come from
. SessionOptions: options of sessions
. SQLTransport: the websocket transport that the interface uses
. SQLTransportInetAddr: its address as seen from outside
. Galvanometer: options of the monitoring pages
. Certificate: the certificate of this side
. PrivateKey: the key of the certificate
. Ciphers: ciphers in the notation of OpenSSL
. SecureSocketProtocols: versions of TLS that are allowed
. VerifyClient: whether the other side must show a certificate; needs CAFile or CAPath
. CAFile: authorities that are trusted, a file
. CAPath: authorities that are trusted, a directory
. Logging: where a server logs; nothing is logged where absent
. Target: one place to log to
. Target/Protocol: the kind of place
. Level: this level and worse
. Levels: exactly these levels
. IncludeErrors: numbers of messages to log whatever their level
. ExcludeErrors: numbers of messages not to log; wins over IncludeErrors
. Target/FileName: the file, with %n and the letters of strftime; needed for file and gzip
. RotationThreshold: the size at which a file is closed and the next begun
. Ident: the name in syslog
. Target/Options: options of syslog
. Facility: the facility of syslog
+ Modules: libraries that a server loads; sowctl takes their options and never loads one
+ Modules/Module: one library
+ Module/Name: the name that others refer to
+ Module/Library: the file of the library; its name tells what is built in, and it is never loaded
+ Modules/Module/Options: texts for the module; read for key generators and VALUE_LOOKUP
. Options: texts for the module, whatever it wants
+ UserDefinedFunctions: functions that modules add to expressions
+ Function: one function; an installed Python package stands in for it
+ Function/Name: its name in expressions, in any letter case
+ Function/Module: the module that has it
+ Symbol: its name in the module
+ ParameterCount: how many arguments it takes; any number where absent
. Authentication: who may log on
. Entitlement: who may do what
. Module: the name of a module
. Externals: libraries of a server that are replaced
. Library: the file of the library
. SSL: the library of TLS
. Crypto: the library of cryptography
. Curl: the library of HTTP
+ MessageTypes: message types besides the built-in ones, or built-in ones with other settings
+ MessageTypes/MessageType: one message type
+ MessageType/Name: its name; a built-in name changes that type
+ MessageType/Module: the kind of message it is; its name where absent
. AMPSVersionCompliance: which reserved tags a server uses in FIX
. MessageType/Options: options of a module
+ FieldSeparator: the byte between fields, of fix and nvfix
. HeaderSeparator: the byte between header and fields, of fix and nvfix
. MessageSeparator: the byte after a message, of fix and nvfix
+ EarlyTerminationOptimization: of json: true takes the first of several equal members, false the last
+ MessageType/MessageType: the type of a part, of composite types, in order
+ MessageType/Type: the message's name with its package, of protobuf
+ ProtoPath: a directory of .proto files, of protobuf: path, ;path or alias;path
+ ProtoFile: the file that defines the message, of protobuf
+ MessageType/Field: /name = order, count and code of a field, of struct
. Protocols: protocols besides the built-in ones
. Protocols/Protocol: one protocol
. Protocol/Name: its name
. Protocol/Module: its module
. Protocol/WWWAuthenticate: the challenge to browsers, of websocket
. TrustedAdmin: whether those logged on to Admin are trusted, of websocket
. HTTPHeader: a line added to answers, of websocket
. Transports: where clients and other instances connect to a server
. Transports/Transport: one of them
. Transport/Name: its name, for logs and actions
. Transport/Type: how bytes travel
. Transport/Protocol: the protocol; replication has none
. Transport/InetAddr: where it listens; not of amps-unix
. Transport/MessageType: the only message type; needed by fix, nvfix and xml protocols
. InitialState: whether it takes connections from the start
. TransportFilter: a module between client and server
. Transport/FileName: the socket, of amps-unix
. FileMask: the permissions of the socket
. PerMessageDeflate: whether websocket messages are compressed
+ SOW: topics and what derives from them; entries keep the order of the file
+ SOW/Topic: a topic whose last message per key is kept
+ SOW/Topic/Name: its name, never a pattern
+ SOW/Topic/MessageType: the type of its messages
+ Topic/Key: a field of the key, in order; without any, publishers send keys
+ KeyDomain: topics of one domain have equal keys for equal values
+ KeyGenerator: a module that makes the keys; one is built in, an installed Python package stands in for others
+ KeyGenerator/Module: its name
+ KeyGenerator/Options: what it wants to know
+ Topic/FileName: the store; %n stands for name and message type
+ Durability: whether the topic has a store
+ Topic/RecoveryPoint: where recovery from the transaction log begins
+ Topic/Expiration: how long records live after their last update
+ SlabSize: the largest payload is 64 bytes less
. InitialSlabCount: how many slabs a server begins with
+ Topic/HashIndex: fields that filters compare for equality; each gets a memo index
+ Topic/HashIndex/Key: a field of the index
+ Topic/Index: a field whose values are held ready in a memo index
. ExpectedKeyCountHint: how many keys there will be, about
+ History: versions that are no longer current are kept
+ Window: how long they are kept
+ Granularity: how far apart the versions of a key are; 0s keeps every one
+ Topic/Preprocessing: fields made before the key is determined
+ Topic/Preprocessing/Field: expression AS /path
+ Topic/Enrichment: fields made after the key is determined
+ Topic/Enrichment/Field: expression AS /path
+ Pattern: names of the logical topics that share this topic's store
+ RecordSize: times IncrementSize, the SlabSize of old
. InitialSize: divided by IncrementSize, the InitialSlabCount of old
+ IncrementSize: records of a step of growth of old
+ View: a topic made from others: joined, grouped, aggregated; computed by pipeline view
+ View/Name: its name
+ View/MessageType: the type of its messages; not binary, protobuf, struct, composite-global
+ View/UnderlyingTopic: the topic it reads, defined above it, or Join elements
+ Join: a field of one topic = a field of another, compared as texts
+ Projection: the fields of its messages
+ Projection/Field: expression AS /path, or a field that keeps its path
+ Grouping: one message per distinct values of these fields
+ Grouping/Field: a plain field of a source
. Conflation: whether updates that come together are computed once
+ View/Filter: only messages for which this is true
. Filter: only messages for which this is true
. HashIndex: fields that filters compare for equality
. HashIndex/Key: a field of the index
+ JoinNullEquivalency: whether NULL and empty join each other
. View/FileName: unused
. ConflatedTopic: a copy of a topic that changes once per interval
. ConflatedTopic/Name: its name; a label where the source has a Pattern
. ConflatedTopic/UnderlyingTopic: the topic it copies, defined above it
. ConflatedTopic/MessageType: the type of the source
. Interval: how often it changes
. Enrichment: fields made when it changes
. Enrichment/Field: expression AS /path
. TopicFormat: the names of its logical topics, with %n; needed where the source has a Pattern
. Queue: a queue of messages, each for one consumer
. LocalQueue: a queue that is not replicated
. GroupLocalQueue: a queue that the instances of a group share
. Queue/Name: its name
. Queue/MessageType: the type of its messages
. Queue/UnderlyingTopic: the journalled topics whose messages it holds, a name or a pattern
. DefaultPublishTarget: where a message published to the queue goes; needed where UnderlyingTopic is a pattern
. LeasePeriod: how long a consumer may keep a message; without end where absent
. Semantics: whether a message is delivered again if it is not acknowledged
. MaxBacklog: unacknowledged messages of all consumers; any number where absent
. MaxPerSubscriptionBacklog: unacknowledged messages of one subscription
. Queue/Expiration: how long a message waits
. ExpirationModel: from which of two expirations the lifetime is taken
. Queue/RecoveryPoint: where recovery from the transaction log begins
. FairnessModel: which consumer is next; proportional, or round-robin for at-most-once, where absent
. Leasing: whether a lease may be passed on within a group
. MaxDeliveries: how often a message is delivered; 0 for any number
. MaxCancels: how often a message is given back; 0 for any number
. Priority: the message with the highest value is next
. BarrierExpression: messages for which this is true wait for all before them
. FileBackedMetadata: keeps the queue's bookkeeping in a file
. TargetQueueDepth: how many messages are held in memory
. DeferredAckExpiration: how long acknowledgments for unknown messages are kept
. InitialOwner: the instance that owns a GroupLocalQueue first; needed there
. GroupLocalQueueDomain: the instances that share a GroupLocalQueue; the Group where absent
+ TransactionLog: what is journalled, and where
+ JournalDirectory: the directory of the journals of this instance
+ JournalArchiveDirectory: directory or URL of archived journals, which are read as those in JournalDirectory
. PreallocatedJournalFiles: files that a server makes in advance
+ JournalSize: the size at which a file is closed; less counts as 10MB
+ TransactionLog/Topic: topics that are journalled
+ TransactionLog/Topic/Name: a name or a pattern
+ TransactionLog/Topic/MessageType: the message type
+ FlushInterval: how long messages may be gathered before they are durable
. O_DIRECT: how a server writes
. InactiveClientAckExpiration: when a server forgets the sequence of a silent publisher; here it is never forgotten
. CompressedJournalCacheMemoryLimit: memory for compressed journals
. Replication: instances that messages are sent to
. Destination: one instance
. Destination/Topic: topics that are sent; they must be journalled
. Destination/Topic/MessageType: the message type
. Destination/Topic/Name: a name or a pattern
. Destination/Topic/Filter: only messages for which this is true
. ExcludeValidation: checks that the other instance need not pass
. Destination/Name: the other instance
. Destination/Group: the group of the other instance
. SyncType: whether a publisher waits for the other instance
. Destination/Transport: how to reach it, in order of preference
. Destination/Transport/Type: how bytes travel
. Destination/Transport/InetAddr: an address, in order of preference
. ReconnectTimeout: how long until the next attempt
. IpProtocolPrefer: which version of the internet protocol is tried first
. Authenticator: a module that logs on to the other instance
. PassThrough: groups whose messages are passed on
. AckConflationInterval: how often acknowledgments are sent
. Compression: how bytes are compressed
. Actions: what a server does on its own; shown and checked, never done
. Action: one or more On, then If and Do in the order of the file
. On: an event; any of several
. If: a condition; where it is false, the run ends
. Do: a deed; where it fails, the run ends
. Tuning: settings for measured needs
. NUMA: processors and their memory
. Enabled: whether a server binds to them
. Tuning/Replication: settings of replication
. MinSyncDestinations: destinations that stay synchronous
. Tuning/Queue: settings of queues
. QueueDeliveryFlushInterval: how long deliveries may be gathered
. Tuning/Admin: settings of monitoring
. Statistics: settings of the file of statistics
. Indexing: its indexes
. Indexing/Enabled: whether it has indexes
"""


class Meaning(Struct, frozen=True):
    """``acted`` is whether sowctl acts on the element, rather than only checking it."""

    acted: bool
    text: str


@cache
def table() -> dict[str, Meaning]:
    """All lines by the end of a path."""
    found = {}
    for line in _LINES.strip().splitlines():
        name, _, text = line[2:].partition(": ")
        found[name] = Meaning(line[0] == "+", text)
    return found


def meaning_of(path: str) -> Meaning:
    """The line of an element by its path below AMPSConfig, such as ``SOW/Topic/Key``. Raises KeyError."""
    words = path.split("/")
    # The three kinds of queue share their lines, their own names aside.
    words = ["Queue" if word in ("LocalQueue", "GroupLocalQueue") and word != words[-1] else word for word in words]
    # From the whole path to its last word: the most exact line counts.
    for first in range(len(words)):
        found = table().get("/".join(words[first:]))
        if found is not None:
            return found
    raise KeyError(path)
