"""Functions that read the record's header or the run's environment, not the payload (``sowctl-expressions(7)``,
functions)."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter

from sowctl.expressions.environment import Environment, Header
from sowctl.expressions.functions.signature import Function, declare_function
from sowctl.values.times import MICROS_PER_SECOND


def _header_seconds(name: str) -> Callable[[Header], float | None]:
    def read(header: Header) -> float | None:
        at = getattr(header, name)
        return None if at is None else at / MICROS_PER_SECOND

    return read


def _header_text_function(name: str, attribute: str, doc: str) -> Function:
    return declare_function(name, attrgetter(attribute), "", "scalar", doc, gets="header")


def _lease_count(header: Header) -> float | None:
    """Return the number of leases of the record, as a Double like its times; ``None`` if leases are not counted."""
    return None if header.lease_count is None else float(header.lease_count)


def unix_timestamp(environment: Environment) -> float:
    """The clock of the run in seconds."""
    return environment.read_clock() / MICROS_PER_SECOND


def uuid7(environment: Environment) -> bytes:
    """An RFC 9562 version 7 identifier from the run's clock and 74 random bits."""
    chance = int.from_bytes(environment.random(10), "big")
    # 48 bits of time, the version 7, 12 random bits, the variant 2, 62 random bits.
    milliseconds = environment.read_clock() // 1000 & (1 << 48) - 1
    number = milliseconds << 80 | 7 << 76 | (chance >> 62 & 0xFFF) << 64 | 2 << 62 | chance & (1 << 62) - 1
    digits = f"{number:032x}"
    parts = (digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])
    return "-".join(parts).encode()


def group_name(environment: Environment) -> str | None:
    """The group's name, by default the instance's."""
    return environment.group_name or environment.instance_name


def _clock_function(name: str, call: Callable[[Environment], object], result: str, doc: str) -> Function:
    return declare_function(name, call, "", result, doc, gets="environment", deterministic=False)


MESSAGE_FUNCTIONS = (
    declare_function(
        "MESSAGE_SIZE", attrgetter("payload_size"), "", "number", "size of the payload in bytes", gets="header"
    ),
    _header_text_function("TOPIC_NAME", "topic", "topic of the record"),
    _header_text_function("CORRELATION_ID", "correlation_id", "correlation ID of the record"),
    _header_text_function(
        "BOOKMARK", "bookmark", "bookmark of the journal entry or envelope; records of a query have none"
    ),
    _header_text_function("SOW_KEY", "sow_key", "SOW key of the record"),
    _header_text_function("SOW_KEY_HASH", "sow_key_hash", "hash of the record's SOW key"),
    declare_function(
        "LAST_UPDATED",
        _header_seconds("last_updated"),
        "",
        "number",
        "time of the last update, in seconds since 1970",
        gets="header",
    ),
    declare_function(
        "LAST_READ",
        _header_seconds("last_read"),
        "",
        "number",
        "time of the last read, in seconds since 1970",
        gets="header",
        deterministic=False,
    ),
    declare_function(
        "LAST_LEASED",
        _header_seconds("last_leased"),
        "",
        "number",
        "time of the last lease, in seconds since 1970",
        gets="header",
    ),
    declare_function("LEASE_COUNT", _lease_count, "", "number", "number of leases, a Double", gets="header"),
    _header_text_function("CLIENT_NAME", "client_name", "name of the client that sent the operation"),
    _header_text_function("USER", "user", "user that sent the operation"),
    _header_text_function("REMOTE_ADDRESS", "remote_address", "address of the client"),
    _header_text_function("CLIENT_VERSION", "client_version", "version of the client"),
    _header_text_function("CONNECTION_NAME", "connection_name", "name of the connection"),
    declare_function(
        "AMPS_INSTANCE_NAME", attrgetter("instance_name"), "", "scalar", "name of the instance", gets="environment"
    ),
    declare_function("AMPS_GROUP_NAME", group_name, "", "scalar", "group of the instance", gets="environment"),
    _clock_function("UNIX_TIMESTAMP", unix_timestamp, "number", "time of the run, in seconds since 1970"),
    _clock_function("UUID7", uuid7, "text", "a new UUID of version 7"),
)
