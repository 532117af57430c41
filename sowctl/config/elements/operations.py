"""The element table of Admin, Logging, Actions, Replication, Tuning and Externals (``sow-config(5)``)."""

from __future__ import annotations

from sowctl.config.elements.connections import AUTHENTICATION, CLIENT_TLS, ENTITLEMENT, MODULE_AND_OPTIONS, TLS
from sowctl.config.elements.element import Element

ADMIN = Element(
    "Admin",
    "0..1",
    "section",
    children=(
        Element("InetAddr", "0..1", "address"),
        Element("FileName", "0..1", "path", default=":memory:"),
        Element("Interval", "0..1", "interval", default="10s", low="1s", bounds="S071"),
        Element("WWWAuthenticate", "0..n", "string", default="Negotiate"),
        AUTHENTICATION,
        ENTITLEMENT,
        Element("AnonymousPaths", "0..1", "regex"),
        Element("Header", "0..n", "string"),
        Element("ExternalInetAddr", "0..1", "string"),
        Element("AccessControlAllowOrigin", "0..1", "regex"),
        Element("SessionOptions", "0..1", "string"),
        Element("SQLTransport", "0..1", "string"),
        Element("SQLTransportInetAddr", "0..1", "string"),
        Element("Galvanometer", "0..1", "opaque"),
        *TLS,
    ),
)

LOGGING = Element(
    "Logging",
    "0..1",
    "section",
    children=(
        Element(
            "Target",
            "1..n",
            "section",
            children=(
                Element(
                    "Protocol",
                    "1",
                    "enum",
                    values=("stdout", "stderr", "file", "gzip", "syslog"),
                    rule="S062",
                    missing="S062",
                ),
                Element("Level", "0..1", "level"),
                Element("Levels", "0..1", "level"),
                Element("IncludeErrors", "0..1", "string"),
                Element("ExcludeErrors", "0..1", "string"),
                Element("FileName", "0..1", "path"),
                Element("RotationThreshold", "0..1", "bytes"),
                Element("Ident", "0..1", "string"),
                Element("Options", "0..1", "string"),
                Element("Facility", "0..1", "string"),
            ),
        ),
    ),
)

ACTIONS = Element(
    "Actions",
    "0..1",
    "section",
    children=(
        Element(
            "Action",
            "0..n",
            "section",
            children=tuple(
                Element(step, times, "section", missing="S055", children=MODULE_AND_OPTIONS)
                for step, times in (("On", "1..n"), ("If", "0..n"), ("Do", "1..n"))
            ),
        ),
    ),
)

REPLICATION = Element(
    "Replication",
    "0..1",
    "section",
    children=(
        Element(
            "Destination",
            "0..n",
            "section",
            children=(
                Element(
                    "Topic",
                    "1..n",
                    "section",
                    missing="S069",
                    children=(
                        Element("MessageType", "1", "string", missing="S069"),
                        Element("Name", "1", "regex", missing="S069"),
                        Element("Filter", "0..1", "filter:replication"),
                        Element("ExcludeValidation", "0..1", "exclude"),
                    ),
                ),
                Element("Name", "0..1", "string"),
                Element("Group", "0..1", "string"),
                Element("SyncType", "1", "enum", values=("sync", "async"), rule="S069", missing="S069"),
                Element(
                    "Transport",
                    "1..n",
                    "open",
                    missing="S069",
                    children=(
                        Element(
                            "Type",
                            "1",
                            "enum",
                            values=("amps-replication", "amps-replication-secure"),
                            rule="S010",
                            missing="S006",
                        ),
                        Element("InetAddr", "1..n", "address", missing="S007"),
                        Element("ReconnectTimeout", "0..1", "interval"),
                        Element("IpProtocolPrefer", "0..1", "string"),
                        Element("Authenticator", "0..1", "section", children=MODULE_AND_OPTIONS),
                        *TLS,
                        *CLIENT_TLS,
                    ),
                ),
                Element("PassThrough", "0..n", "regex"),
                Element("AckConflationInterval", "0..1", "interval"),
                Element("Compression", "0..1", "string"),
            ),
        ),
    ),
)

_INDEXING = Element("Indexing", "0..1", "section", children=(Element("Enabled", "0..1", "switch"),))
TUNING = Element(
    "Tuning",
    "0..1",
    "open",
    children=(
        Element("NUMA", "0..1", "section", children=(Element("Enabled", "0..1", "switch", default="enabled"),)),
        Element("Replication", "0..1", "open", children=(Element("MinSyncDestinations", "0..1", "string"),)),
        Element(
            "Queue",
            "0..1",
            "open",
            children=(
                Element("QueueDeliveryFlushInterval", "0..1", "interval", default="250us", low="1us", bounds="S073"),
            ),
        ),
        Element("Admin", "0..1", "open", children=(Element("Statistics", "0..1", "open", children=(_INDEXING,)),)),
    ),
)

EXTERNALS = Element(
    "Externals",
    "0..1",
    "section",
    children=tuple(
        Element(name, "0..1", "section", children=(Element("Library", "0..1", "path", default=library),))
        for name, library in (("SSL", "libopenssl.so"), ("Crypto", "libcrypto.so"), ("Curl", "libcurl.so"))
    ),
)
