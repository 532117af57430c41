"""Rules of Transports/Transport: requirements of each type, and conflicting addresses."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import TypeAlias

from sowctl.config.document import ElementNode
from sowctl.config.rules.rule import Problem
from sowctl.config.rules.subjects import is_replication
from sowctl.config.rules.survey import Survey
from sowctl.config.suggestions import has_misspelled_child

LEGACY_PROTOCOLS = frozenset({"fix", "nvfix", "soap", "xml"})


def _read_type(node: ElementNode) -> str:
    return (node.find_text("Type") or "").lower()


def address_missing(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: a Transport, other than of type amps-unix, without InetAddr.

    Why: there is nothing to listen on.
    Example: a Transport with only Name, Type and Protocol.
    Instead: add ``<InetAddr>9007</InetAddr>``.
    """
    if _read_type(node) != "amps-unix" and node.find("InetAddr") is None and not has_misspelled_child(node, "InetAddr"):
        yield Problem(node, "Transport requires an InetAddr", "add <InetAddr> with a port or host:port")


def protocol_missing(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: a Transport for clients without Protocol.

    Why: a server refuses it; only replication transports have a protocol of their own.
    Example: a tcp Transport with only Name, Type and InetAddr.
    Instead: add ``<Protocol>amps</Protocol>``.
    """
    if not is_replication(node) and node.find("Protocol") is None and not has_misspelled_child(node, "Protocol"):
        yield Problem(node, "Transport requires a Protocol", "add <Protocol>amps</Protocol>")


def certificate_missing(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: a TLS Transport without Certificate or PrivateKey.

    Why: a TLS endpoint must identify itself.
    Example: only ``<Type>tcps</Type>``.
    Instead: add both paths.
    """
    kind = _read_type(node)
    missing = [tag for tag in ("Certificate", "PrivateKey") if node.find(tag) is None]
    if (
        kind in ("tcps", "amps-replication-secure")
        and missing
        and not all(has_misspelled_child(node, tag) for tag in missing)
    ):
        yield Problem(node, f"{kind} requires Certificate and PrivateKey", "add the paths of both files")


def socket_missing(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: an amps-unix Transport without FileName.

    Why: the socket needs a path.
    Example: only ``<Type>amps-unix</Type>``.
    Instead: add ``<FileName>/run/amps.sock</FileName>``.
    """
    if _read_type(node) == "amps-unix" and node.find("FileName") is None and not has_misspelled_child(node, "FileName"):
        yield Problem(node, "amps-unix requires FileName", "add the path of the socket")


def nothing_to_verify(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: VerifyClient without CAFile and CAPath.

    Why: there is no authority to verify a client against.
    Example: only ``<VerifyClient>True</VerifyClient>``.
    Instead: add CAFile or CAPath.
    """
    wanted = (node.find_text("VerifyClient") or "").lower() in ("true", "enabled")
    if (
        wanted
        and node.find("CAFile", "CAPath") is None
        and not (has_misspelled_child(node, "CAFile") or has_misspelled_child(node, "CAPath"))
    ):
        hint = "add <CAFile> or <CAPath> with the trusted authorities"
        yield Problem(node, "VerifyClient True requires CAFile or CAPath", hint)


def legacy_without_type(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: a Transport with a legacy protocol and no MessageType.

    Why: fix, nvfix, soap and xml carry messages of one type, which must be named.
    Example: only ``<Protocol>nvfix</Protocol>``.
    Instead: add MessageType, or use the protocol ``amps``.
    """
    protocol = node.find_text("Protocol")
    untyped = node.find("MessageType") is None and not has_misspelled_child(node, "MessageType")
    if protocol in LEGACY_PROTOCOLS and untyped and not is_replication(node):
        yield Problem(node, f"Protocol {protocol} requires a MessageType", "add <MessageType>, or use Protocol amps")


def several_replication(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: more than one incoming replication Transport.

    Why: an instance accepts replication on one Transport.
    Example: two Transports of type amps-replication.
    Instead: keep one; several instances may connect to it.
    """
    incoming = [other for other in survey.find_nodes("Transport") if is_replication(other)]
    for other in incoming[1:]:
        yield Problem(other, "only one incoming replication Transport is allowed", "remove this one")


def port_used_twice(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: two addresses of this instance with the same port and overlapping hosts.

    Why: the second bind fails and the instance does not start.
    Example: two Transports with ``<InetAddr>9007</InetAddr>``.
    Instead: give each its own port, or different hosts.
    """
    used: dict[str, list[tuple[_Host, str]]] = {}
    sections = survey.top.find_all("Admin", "Transports")
    for owner in (
        owner for part in sections for owner in ((part,) if part.tag == "Admin" else part.find_all("Transport"))
    ):
        address = owner.find("InetAddr")
        if address is None or not address.text or survey.is_repeated(owner):
            continue
        text, _, port = address.text.rpartition(":")
        port = port.lstrip("0")
        host, name = _parse_host(text), owner.find_text("Name") or owner.tag
        for other_host, other in used.get(port, ()):
            if _hosts_overlap(host, other_host):
                yield Problem(address, f"port {port} is already used by {other}", "choose another port")
                break
        used.setdefault(port, []).append((host, name))


_Host: TypeAlias = IPv4Address | IPv6Address | str
"""An address, or a name in lower case; an empty one means every address of the machine."""


def _parse_host(text: str) -> _Host:
    try:
        return ip_address(text.removeprefix("[").removesuffix("]"))
    except ValueError:
        return text.lower()


def _hosts_overlap(one: _Host, other: _Host) -> bool:
    """Return True if two hosts may have an address in common. 0.0.0.0 means every IPv4 address, [::] every IPv6
    address.
    """
    if one == other or "" in (one, other):
        return True
    if isinstance(one, str) or isinstance(other, str):
        # A name may resolve to any address, including one that the unspecified address covers.
        return any(not isinstance(host, str) and host.is_unspecified for host in (one, other))
    return one.version == other.version and (one.is_unspecified or other.is_unspecified)
