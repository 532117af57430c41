"""The top of the element table: AMPSConfig, which combines the sections (``sow-config(5)``, top level)."""

from __future__ import annotations

from sowctl.config.elements.connections import (
    AUTHENTICATION,
    ENTITLEMENT,
    MESSAGE_TYPES,
    MODULES,
    PROTOCOLS,
    SLOW_CLIENTS,
    TRANSPORTS,
    USER_FUNCTIONS,
)
from sowctl.config.elements.element import Element
from sowctl.config.elements.journal import TRANSACTION_LOG
from sowctl.config.elements.operations import ACTIONS, ADMIN, EXTERNALS, LOGGING, REPLICATION, TUNING
from sowctl.config.elements.sow import SOW

INSTANCE = Element(
    "AMPSConfig",
    "1",
    "section",
    children=(
        Element("Name", "1", "string", missing="S004"),
        Element("Group", "0..1", "string", default="Name"),
        Element("ProcessName", "0..1", "string"),
        Element("Description", "0..1", "text"),
        Element("Environment", "0..1", "text"),
        Element("SuggestedMinimumVersion", "0..1", "version"),
        Element("RequiredMinimumVersion", "0..1", "version"),
        Element("ConfigIncludeCommentDefault", "0..1", "switch", default="false"),
        Element("ConfigCycleDetectionThreshold", "0..1", "bytes", default="5MB"),
        Element("ConfigValidation", "0..1", "switch", default="enabled"),
        Element("RegexTopicSupport", "0..1", "switch", default="true"),
        Element("SOWStatisticsInterval", "0..1", "interval", synonyms=(("SOWStatsInterval", "D014"),)),
        *SLOW_CLIENTS,
        Element("MiniDumpDirectory", "0..1", "path", default="/tmp"),
        Element("MiniDumpFileMask", "0..1", "octal", default="0640"),
        ADMIN,
        LOGGING,
        MODULES,
        USER_FUNCTIONS,
        AUTHENTICATION,
        ENTITLEMENT,
        EXTERNALS,
        MESSAGE_TYPES,
        PROTOCOLS,
        TRANSPORTS,
        SOW,
        TRANSACTION_LOG,
        REPLICATION,
        ACTIONS,
        TUNING,
    ),
)
