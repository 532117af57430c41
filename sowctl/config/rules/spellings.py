"""Rules about retired, obsolete or insecure values, as opposed to elements."""

from __future__ import annotations

from collections.abc import Iterator

from sowctl.config.document import ElementNode
from sowctl.config.rules.rule import Problem
from sowctl.config.rules.subjects import TYPE_MODULES, is_replication
from sowctl.config.rules.survey import Survey
from sowctl.config.rules.transport import LEGACY_PROTOCOLS

INSECURE_PROTOCOLS = frozenset({"SSLv2", "SSLv3", "TLSv1"})


def protocol_json(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: the protocol json.

    Why: it is an accepted synonym of amps, but suggests that it limits the message types.
    Example: ``<Protocol>json</Protocol>``.
    Instead: write ``<Protocol>amps</Protocol>``.
    """
    protocol = node.find("Protocol", "Module")
    if protocol is not None and protocol.text == "json":
        yield Problem(protocol, "protocol json is a synonym of amps", "write amps")


def legacy_protocol(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: a Transport with one of the protocols fix, nvfix, soap and xml.

    Why: they are frozen: each carries one message type, and newer features such as Pattern topics cannot be queried.
    Example: ``<Protocol>nvfix</Protocol>``.
    Instead: let clients connect with the protocol ``amps``, which carries all message types.
    """
    protocol = node.find("Protocol")
    if protocol is not None and protocol.text in LEGACY_PROTOCOLS and not is_replication(node):
        yield Problem(protocol, f"legacy protocol {protocol.text}", "write <Protocol>amps</Protocol>")


def level_debug(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: the log level debug.

    Why: it is obsolete and means info, so less is logged than its name says.
    Example: ``<Level>debug</Level>``.
    Instead: write info, or trace or developer for more detail.
    """
    for level in node.find_all("Level", "Levels"):
        if "debug" in (word.strip().lower() for word in level.text.split(",")):
            yield Problem(level, "log level debug is obsolete and means info", "write info, trace or developer")


def vacuum_statistics(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: an action with amps-action-do-vacuum-statistics.

    Why: the module is accepted but no longer does anything.
    Example: ``<Module>amps-action-do-vacuum-statistics</Module>``.
    Instead: limit the statistics with amps-action-do-truncate-statistics; shrink the file while the server is down.
    """
    for step in node.find_all("Do"):
        module = step.find("Module")
        if module is not None and module.text == "amps-action-do-vacuum-statistics":
            yield Problem(module, "vacuum-statistics no longer does anything", "remove the step")


def type_as_module(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: Type in a MessageType names its module.

    Why: the element was retired in 4.0, and now means the message of a protobuf definition.
    Example: ``<Type>fix</Type>`` without Module.
    Instead: write ``<Module>fix</Module>``.
    """
    kind = node.find("Type")
    if kind is not None and node.find("Module") is None and (kind.text in TYPE_MODULES or kind.text in survey.modules):
        yield Problem(
            kind, f"MessageType/Type used as module name '{kind.text}'", f"write <Module>{kind.text}</Module>"
        )


def insecure_protocol(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: SecureSocketProtocols names SSLv2, SSLv3 or TLSv1.

    Why: these versions are insecure; the default list is better.
    Example: ``<SecureSocketProtocols>TLSv1 TLSv1.2</SecureSocketProtocols>``.
    Instead: ``TLSv1.2 TLSv1.3``, or no list at all.
    """
    outgoing = (other for to in survey.find_nodes("Destination") for other in to.find_all("Transport"))
    for transport in (*survey.find_nodes("Transport"), *outgoing):
        for listed in transport.find_all("SecureSocketProtocols"):
            weak = [word for word in listed.text.split() if word in INSECURE_PROTOCOLS]
            if weak:
                yield Problem(listed, f"{', '.join(weak)} enabled: insecure", "write TLSv1.2 TLSv1.3, or remove it")


def null_equivalency(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: a View with JoinNullEquivalency enabled.

    Why: it makes missing fields equal in a join, as in early versions; it exists only for compatibility.
    Example: ``<JoinNullEquivalency>enabled</JoinNullEquivalency>``.
    Instead: remove it, and give the joined fields values.
    """
    switch = node.find("JoinNullEquivalency")
    if switch is not None and switch.text.lower() in ("enabled", "true"):
        yield Problem(switch, "JoinNullEquivalency enabled: compatibility only", "remove it")


def compliance_two(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: AMPSVersionCompliance 2 in a MessageType.

    Why: it keeps the FIX tags of AMPS 2.x in header fields, for clients of that time.
    Example: ``<AMPSVersionCompliance>2</AMPSVersionCompliance>``.
    Instead: remove it when the old clients are gone.
    """
    compliance = node.find("AMPSVersionCompliance")
    if compliance is not None and compliance.text == "2":
        message = "AMPSVersionCompliance 2 keeps AMPS 2.x FIX tags"
        yield Problem(compliance, message, "remove it when no old clients remain")
