"""The purpose of each element in a line, and whether sowctl acts on it: for ``config schema`` and ``sow-config(5)``.

Separate from the rows, because only the schema and the manual page need it. An element gets the line with the longest
matching end of its path.
"""

from __future__ import annotations

from functools import cache

from msgspec import Struct

_MEANING_LINES = """
+ Name: name of the instance, used in file names, journals and messages
+ Group: instances with the same group are equivalent
. ProcessName: process name of a server
. Description: comment
. Environment: comment
. SuggestedMinimumVersion: a server with a lower version prints a warning
. RequiredMinimumVersion: a server with a lower version does not start
. ConfigIncludeCommentDefault: whether a server marks included parts with comments
+ ConfigCycleDetectionThreshold: maximum size of all files together
. ConfigValidation: whether a server checks types and ranges; sowctl always does
+ RegexTopicSupport: whether topic names outside of SOW are patterns
. SOWStatisticsInterval: interval at which a server publishes statistics
. MessageMemoryLimit: memory for messages to slow clients; a tenth of the memory if absent
. MessageDiskLimit: disk space for messages to slow clients; 1GB or MessageMemoryLimit if absent
. MessageDiskPath: directory for messages to slow clients
. ClientMessageAgeLimit: maximum age of the oldest message of a client before it is disconnected
. ClientMaxCapacity: share of the limits that one client may use
. MiniDumpDirectory: directory for crash dumps, or disabled
. MiniDumpFileMask: permissions of crash dumps
. Admin: monitoring interface of a server
. Admin/InetAddr: address of the monitoring interface; no interface if absent
. Admin/FileName: statistics file
. Admin/Interval: interval between statistics
. Admin/WWWAuthenticate: challenge sent to browsers; used with Authentication
. Admin/AnonymousPaths: paths that require no logon
. Header: line added to responses
. ExternalInetAddr: address as seen from outside
. AccessControlAllowOrigin: allowed origins of browser requests
. SessionOptions: session options
. SQLTransport: websocket transport that the interface uses
. SQLTransportInetAddr: address of that transport as seen from outside
. Galvanometer: options of the monitoring pages
. Certificate: certificate of this side
. PrivateKey: private key of the certificate
. Ciphers: allowed ciphers, in OpenSSL notation
. SecureSocketProtocols: allowed TLS versions
. VerifyClient: whether the other side must present a certificate; needs CAFile or CAPath
. CAFile: file of trusted authorities
. CAPath: directory of trusted authorities
. Logging: log targets of a server; nothing is logged if absent
. Target: one log target
. Target/Protocol: kind of target
. Level: minimum level to log
. Levels: exact levels to log
. IncludeErrors: numbers of messages to log at any level
. ExcludeErrors: numbers of messages not to log; overrides IncludeErrors
. Target/FileName: log file, with %n and strftime directives; required for file and gzip
. RotationThreshold: size at which a new file is started
. Ident: name in syslog
. Target/Options: syslog options
. Facility: syslog facility
+ Modules: libraries that a server loads; their options are read, but no library is loaded
+ Modules/Module: one library
+ Module/Name: name for references
+ Module/Library: library file; its name selects a built-in replacement, and the file is never loaded
+ Modules/Module/Options: options of the module; read for key generators and VALUE_LOOKUP
. Options: options of the module
+ UserDefinedFunctions: functions that modules add to expressions
+ Function: one function; an installed Python package implements it
+ Function/Name: name in expressions, case-insensitive
+ Function/Module: module that contains the function
+ Symbol: name of the function in the module
+ ParameterCount: number of arguments; any number if absent
. Authentication: who may log on
. Entitlement: who may do what
. Module: name of a module
. Externals: libraries of a server to replace
. Library: library file
. SSL: TLS library
. Crypto: cryptography library
. Curl: HTTP library
+ MessageTypes: additional message types, or built-in ones with other settings
+ MessageTypes/MessageType: one message type
+ MessageType/Name: name of the type; a built-in name changes that type
+ MessageType/Module: kind of message type; the Name if absent
. AMPSVersionCompliance: reserved FIX tags that a server uses
. MessageType/Options: options of a module
+ FieldSeparator: byte between fields, for fix and nvfix
. HeaderSeparator: byte between header and fields, for fix and nvfix
. MessageSeparator: byte after a message, for fix and nvfix
+ EarlyTerminationOptimization: which of several equal members counts in json: the first (true) or the last (false)
+ MessageType/MessageType: type of a part, in order, for composite types
+ MessageType/Type: message name with its package, for protobuf
+ ProtoPath: directory of .proto files, for protobuf: path, ;path or alias;path
+ ProtoFile: file that defines the message, for protobuf
+ MessageType/Field: /name = order, count and code of a field, for struct
. Protocols: additional protocols
. Protocols/Protocol: one protocol
. Protocol/Name: name of the protocol
. Protocol/Module: module of the protocol
. Protocol/WWWAuthenticate: challenge sent to browsers, for websocket
. TrustedAdmin: whether users logged on to Admin are trusted, for websocket
. HTTPHeader: line added to responses, for websocket
. Transports: where clients and other instances connect to a server
. Transports/Transport: one transport
. Transport/Name: name for logs and actions
. Transport/Type: network transport
. Transport/Protocol: protocol; replication has none
. Transport/InetAddr: address to listen on; not for amps-unix
. Transport/MessageType: the only message type; required by fix, nvfix and xml protocols
. InitialState: whether the transport accepts connections from the start
. TransportFilter: module between client and server
. Transport/FileName: socket file, for amps-unix
. FileMask: permissions of the socket file
. PerMessageDeflate: whether websocket messages are compressed
+ SOW: topics and topics derived from them, in order
+ SOW/Topic: topic that keeps the last message per key
+ SOW/Topic/Name: name of the topic, never a pattern
+ SOW/Topic/MessageType: message type of the topic
+ Topic/Key: key field; the order counts; without any, publishers send keys
+ KeyDomain: topics with the same domain have equal keys for equal values
+ KeyGenerator: module that makes the keys: a built-in one, or an installed Python package
+ KeyGenerator/Module: name of the module
+ KeyGenerator/Options: options of the module
+ Topic/FileName: store; %n stands for name and message type
+ Durability: whether the topic has a store
+ Topic/RecoveryPoint: start of recovery from the journal
+ Topic/Expiration: lifetime of records after their last update
+ SlabSize: maximum payload size plus 64 bytes
. InitialSlabCount: initial number of slabs of a server
+ Topic/HashIndex: fields that filters compare for equality; each gets a memo index
+ Topic/HashIndex/Key: field of the index
+ Topic/Index: field with a memo index
. ExpectedKeyCountHint: expected number of keys
+ History: keep earlier versions of records
+ Window: how long earlier versions are kept
+ Granularity: minimum distance between kept versions of a key; 0s keeps every version
+ Topic/Preprocessing: fields constructed before the key is determined
+ Topic/Preprocessing/Field: expression AS /path
+ Topic/Enrichment: fields constructed after the key is determined
+ Topic/Enrichment/Field: expression AS /path
+ Pattern: names of the logical topics that share this store
+ RecordSize: old form of SlabSize: RecordSize times IncrementSize
. InitialSize: old form of InitialSlabCount: InitialSize divided by IncrementSize
+ IncrementSize: old form: records per growth step
+ View: topic computed from other topics: joined, grouped, aggregated
+ View/Name: name of the view
+ View/MessageType: message type of the view; not binary, protobuf, struct or composite-global
+ View/UnderlyingTopic: source, defined above the view, or Join elements
+ Join: field of one topic = field of another, compared as texts
+ Projection: fields of the messages
+ Projection/Field: expression AS /path, or a field that keeps its path
+ Grouping: one message per distinct combination of these fields
+ Grouping/Field: field of a source
. Conflation: whether a server computes simultaneous updates once
+ View/Filter: only messages that match
. Destination/Topic/Filter: only messages that match
+ Filter: only messages that match
. HashIndex: fields that filters compare for equality
. HashIndex/Key: field of the index
+ JoinNullEquivalency: whether NULL and empty values join each other
. View/FileName: unused
+ ConflatedTopic: copy of a topic that changes once per interval
+ ConflatedTopic/Name: name of the conflated topic; only a label if the source has a Pattern
+ ConflatedTopic/UnderlyingTopic: source, defined above the conflated topic
+ ConflatedTopic/MessageType: message type of the source
+ ConflatedTopic/Interval: minimum time between two changes of a record
+ Enrichment: fields constructed when a record changes
+ Enrichment/Field: expression AS /path
+ TopicFormat: names of the logical topics, with %n; required if the source has a Pattern
+ Queue: queue of messages, each for one consumer
+ LocalQueue: queue that is not replicated
+ GroupLocalQueue: queue that the instances of a group share
+ Queue/Name: name of the queue
+ Queue/MessageType: message type of the queue
+ Queue/UnderlyingTopic: name or pattern of the journalled topics whose messages the queue holds
+ DefaultPublishTarget: topic for messages published to the queue; required if UnderlyingTopic is a pattern
+ LeasePeriod: maximum duration of a lease; unlimited if absent
+ Semantics: whether a message that is not acknowledged is delivered again
+ MaxBacklog: maximum number of unacknowledged messages of all consumers; unlimited if absent
+ MaxPerSubscriptionBacklog: maximum number of unacknowledged messages of one subscription
+ Queue/Expiration: maximum time that a message waits
+ ExpirationModel: which of two expirations counts
+ Queue/RecoveryPoint: start of recovery from the journal
+ FairnessModel: which consumer is next; if absent, proportional, or round-robin for at-most-once
+ Leasing: whether others may settle a message that is leased
+ MaxDeliveries: maximum number of deliveries of a message; 0 for unlimited
+ MaxCancels: maximum number of returns of a message; 0 for unlimited
+ Priority: the message with the highest value is next
+ BarrierExpression: messages that match wait for all earlier messages
+ FileBackedMetadata: sync every change of the state of the queue
+ TargetQueueDepth: maximum number of messages in the state of the queue
+ DeferredAckExpiration: how long acknowledgements for unknown messages are kept
. InitialOwner: instance that owns a GroupLocalQueue first; required there
. GroupLocalQueueDomain: instances that share a GroupLocalQueue; the Group if absent
+ TransactionLog: journalled topics, and the place of the journal
+ JournalDirectory: directory of the journal files of this instance
+ JournalArchiveDirectory: directory or URL of archived journal files, which are part of the journal
. PreallocatedJournalFiles: number of files that a server creates in advance
+ JournalSize: size at which a new file is started; less than 10MB counts as 10MB
+ TransactionLog/Topic: journalled topics
+ TransactionLog/Topic/Name: name or pattern
+ TransactionLog/Topic/MessageType: message type
+ FlushInterval: maximum time to gather messages before they are made durable
. O_DIRECT: whether a server bypasses the page cache
. InactiveClientAckExpiration: when a server forgets the sequence of a silent publisher; here it is never forgotten
. CompressedJournalCacheMemoryLimit: memory for compressed journal files
. Replication: instances to which messages are replicated
. Destination: one instance
. Destination/Topic: replicated topics; they must be journalled
. Destination/Topic/MessageType: message type
. Destination/Topic/Name: name or pattern
. ExcludeValidation: checks that the other instance need not pass
. Destination/Name: name of the other instance
. Destination/Group: group of the other instance
. SyncType: whether a publisher waits for the other instance
. Destination/Transport: connections, in order of preference
. Destination/Transport/Type: network transport
. Destination/Transport/InetAddr: address, in order of preference
. ReconnectTimeout: delay before the next attempt
. IpProtocolPrefer: IP version to try first
. Authenticator: module that logs on to the other instance
. PassThrough: groups whose messages are passed on
. AckConflationInterval: interval between acknowledgements
. Compression: compression of the connection
+ Actions: scheduled and triggered actions; upkeep run carries out those that concern files
+ Action: one or more On, then If and Do in order
+ On: event that starts the action; only schedules are supported
+ On/Module: name of an action module
+ On/Options: options of the module
+ If: condition; if it is false, the action ends
+ If/Module: name of an action module
+ If/Options: options of the module
+ Do: step; if it fails, the action ends
+ Do/Module: name of an action module
+ Do/Options: options of the module
. Tuning: performance settings
. NUMA: processors and their memory
. Enabled: whether a server binds to them
. Tuning/Replication: replication settings
. MinSyncDestinations: minimum number of synchronous destinations
. Tuning/Queue: queue settings
. QueueDeliveryFlushInterval: maximum time to gather deliveries
. Tuning/Admin: monitoring settings
. Statistics: settings of the statistics file
. Indexing: indexes of the statistics file
. Indexing/Enabled: whether it has indexes
"""


class Meaning(Struct, frozen=True):
    """``acted`` is whether sowctl acts on the element, rather than only checking it."""

    acted: bool
    text: str


@cache
def parse_meanings() -> dict[str, Meaning]:
    """All lines, by the end of a path."""
    found = {}
    for line in _MEANING_LINES.strip().splitlines():
        name, _, text = line[2:].partition(": ")
        found[name] = Meaning(line[0] == "+", text)
    return found


def find_meaning(path: str) -> Meaning:
    """The line of an element by its path below AMPSConfig, such as ``SOW/Topic/Key``. Raises KeyError."""
    words = path.split("/")
    # The three kinds of queue share their lines, except for their own names.
    words = ["Queue" if word in ("LocalQueue", "GroupLocalQueue") and word != words[-1] else word for word in words]
    # From the whole path to its last word: the most specific line counts.
    for first in range(len(words)):
        found = parse_meanings().get("/".join(words[first:]))
        if found is not None:
            return found
    raise KeyError(path)
