"""The element table of Transports, Protocols, MessageTypes, Modules, security, functions (``sow-config(5)``)."""

from __future__ import annotations

from sowctl.config.elements.element import Element

MODULE_AND_OPTIONS = (Element("Module", "1", "string"), Element("Options", "0..1", "opaque"))
AUTHENTICATION = Element("Authentication", "0..1", "section", children=MODULE_AND_OPTIONS)
ENTITLEMENT = Element("Entitlement", "0..1", "section", children=MODULE_AND_OPTIONS)

SLOW_CLIENTS = (
    Element("MessageMemoryLimit", "0..1", "bytes"),
    Element("MessageDiskLimit", "0..1", "bytes"),
    Element("MessageDiskPath", "0..1", "path", default="/var/tmp"),
    Element("ClientMessageAgeLimit", "0..1", "interval"),
    Element("ClientMaxCapacity", "0..1", "percent", default="50%"),
)
TLS = (
    Element("Certificate", "0..1", "path"),
    Element("PrivateKey", "0..1", "path"),
    Element("Ciphers", "0..1", "string"),
)
CLIENT_TLS = (
    Element("SecureSocketProtocols", "0..1", "tls"),
    Element("VerifyClient", "0..1", "switch", default="false"),
    Element("CAFile", "0..1", "path"),
    Element("CAPath", "0..1", "path"),
)

TRANSPORTS = Element(
    "Transports",
    "0..1",
    "section",
    children=(
        Element(
            "Transport",
            "0..n",
            "section",
            children=(
                Element("Name", "1", "string", missing="S005"),
                Element(
                    "Type",
                    "1",
                    "enum",
                    values=("tcp", "tcps", "amps-replication", "amps-replication-secure", "amps-unix"),
                    rule="S010",
                    missing="S006",
                ),
                Element("Protocol", "0..1", "string"),
                Element("InetAddr", "0..1", "address"),
                Element("MessageType", "0..1", "string"),
                Element("InitialState", "0..1", "switch", default="enabled"),
                AUTHENTICATION,
                ENTITLEMENT,
                Element("TransportFilter", "0..n", "section", children=MODULE_AND_OPTIONS),
                *SLOW_CLIENTS,
                *TLS,
                *CLIENT_TLS,
                Element("FileName", "0..1", "path"),
                Element("FileMask", "0..1", "octal"),
                Element("PerMessageDeflate", "0..1", "string", default="enabled"),
                Element("HTTPHeader", "0..n", "string"),
            ),
        ),
    ),
)

PROTOCOLS = Element(
    "Protocols",
    "0..1",
    "section",
    children=(
        Element(
            "Protocol",
            "0..n",
            "open",
            children=(
                Element("Name", "1", "string"),
                Element("Module", "1", "string"),
                Element("WWWAuthenticate", "0..n", "string"),
                Element("TrustedAdmin", "0..1", "switch", default="false"),
                Element("HTTPHeader", "0..n", "string"),
            ),
        ),
    ),
)

MESSAGE_TYPES = Element(
    "MessageTypes",
    "0..1",
    "section",
    children=(
        Element(
            "MessageType",
            "0..n",
            "section",
            children=(
                Element("Name", "1", "string"),
                Element("Module", "0..1", "string"),
                Element("AMPSVersionCompliance", "0..1", "enum", default="4", values=("2", "4", "5"), rule="S074"),
                Element("Options", "0..1", "opaque"),
                Element("FieldSeparator", "0..1", "byte", default="1"),
                Element("HeaderSeparator", "0..1", "byte", default="2"),
                Element("MessageSeparator", "0..1", "byte", default="3"),
                Element("EarlyTerminationOptimization", "0..1", "switch", default="true"),
                Element("MessageType", "0..n", "string"),
                Element("Type", "0..1", "string"),
                Element("ProtoPath", "0..n", "string"),
                Element("ProtoFile", "0..1", "string"),
                Element("Field", "0..n", "struct"),
            ),
        ),
    ),
)

MODULES = Element(
    "Modules",
    "0..1",
    "section",
    children=(
        Element(
            "Module",
            "0..n",
            "section",
            children=(
                Element("Name", "1", "string", missing="S054"),
                Element("Library", "1", "string", missing="S054"),
                Element("Options", "0..1", "opaque"),
            ),
        ),
    ),
)

USER_FUNCTIONS = Element(
    "UserDefinedFunctions",
    "0..1",
    "section",
    children=(
        Element(
            "Function",
            "0..n",
            "section",
            children=(
                Element("Name", "1", "string", missing="S066"),
                Element("Module", "1", "string", missing="S066"),
                Element("Symbol", "1", "string", missing="S066"),
                Element("ParameterCount", "0..1", "count"),
            ),
        ),
    ),
)
