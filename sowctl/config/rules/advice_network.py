"""Advice on transports, replication, and the cost of slow clients."""

from __future__ import annotations

from collections.abc import Iterator

from sowctl.config.document import ElementNode
from sowctl.config.rules.measures import (
    can_compare_all,
    format_interval_text,
    format_size_text,
    read_interval,
    read_size,
)
from sowctl.config.rules.rule import Problem
from sowctl.config.rules.subjects import is_replication
from sowctl.config.rules.survey import Survey
from sowctl.config.topic_patterns import is_pattern

MEMORY_SHARE_DIVISOR = 5
"""A limit of more than this fraction of the memory, 1/5, is reported."""


def replication_name(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: a replication Transport with another Name than its Type.

    Why: log lines and statistics show the Name; a Name equal to the Type shows the kind of connection.
    Example: ``<Name>repl-in</Name>`` beside ``<Type>amps-replication</Type>``.
    Instead: ``<Name>amps-replication</Name>``.
    """
    name, kind = node.find("Name"), node.find_text("Type") or ""
    if name is not None and name.text and is_replication(node) and name.text != kind:
        message = f"replication Transport Name '{name.text}' should equal its Type"
        yield Problem(name, message, f"write <Name>{kind}</Name> here and in all references")


def no_sync_destination(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: an instance that accepts publishes replicates to no destination with SyncType sync.

    Why: a message is acknowledged before another instance has it, and may be lost on failover.
    Example: ``<SyncType>async</SyncType>`` in the only Destination.
    Instead: make the destination for failover ``sync``; async suits distant copies.
    """
    destinations = list(node.find_all("Destination"))
    clients = any(not is_replication(transport) for transport in survey.find_nodes("Transport"))
    if clients and destinations and all((d.find_text("SyncType") or "").lower() == "async" for d in destinations):
        message = "instance accepts publishes but has no sync Destination: messages may be lost on failover"
        yield Problem(node, message, "write <SyncType>sync</SyncType> in the Destination to which clients fail over")


def no_pass_through(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: a Destination without PassThrough, in an instance that others replicate to and that has several.

    Why: messages that arrive by replication are not forwarded; they end after one hop.
    Example: two Destinations and a Transport of type amps-replication, and no PassThrough.
    Instead: ``<PassThrough>.*</PassThrough>`` in each Destination, unless every instance reaches every other.
    """
    destinations = list(node.find_all("Destination"))
    incoming = any(is_replication(transport) for transport in survey.find_nodes("Transport"))
    names = {destination.find_text("Name", "Group") for destination in destinations}
    if not incoming or len(names) < 2:
        return
    for destination in destinations:
        if destination.find("PassThrough") is None:
            name = destination.find_text("Name", "Group") or ""
            message = f"PassThrough absent in Destination '{name}': replicated messages are not forwarded"
            yield Problem(destination, message, "add <PassThrough>.*</PassThrough> in a mesh of more than two")


def unequal_group(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: a Destination of this instance's own Group receives only part of the logged messages.

    Why: the instances of a Group are assumed to be equivalent; a client that fails over to an incomplete one misses
    data. The rule reports a Filter, and a logged SOW topic or queue that the Destination does not name. If lint checks
    several files, instances with the same Group must also define the same entries.
    Example: ``<Group>shop</Group>`` at the top and in a Destination with one of two topics.
    Instead: replicate everything inside a Group, or give the other instance a Group of its own.
    """
    own = node.find_text("Group") or node.find_text("Name")
    for destination in survey.find_nodes("Destination"):
        group = destination.find("Group")
        if group is None or not group.text or group.text != own:
            continue
        lacking = _describe_lack(destination, survey)
        if lacking:
            message = f"instances with different content share the Group '{own}': {lacking}"
            yield Problem(group, message, "replicate everything within a Group, or use another Group")


def _describe_lack(destination: ElementNode, survey: Survey) -> str | None:
    """Describe the data that an instance of the same group would lack; None if it lacks nothing."""
    nodes = list(destination.find_all("Topic"))
    for topic in nodes:
        if topic.find("Filter") is not None:
            return f"a Filter excludes part of '{topic.find_text('Name')}'"
    sent = [(topic.find_text("Name") or "", topic.find_text("MessageType")) for topic in nodes]
    exact = set(sent)
    patterns = [pair for pair in sent if survey.has_regex_topics and is_pattern(pair[0])]
    # Too many names or patterns are not compared; the advice is omitted then.
    for entry in survey.entries if can_compare_all(len(patterns), len(survey.entries)) else ():
        if entry.kind not in ("Topic", "Queue") or (entry.name, entry.type) in exact:
            continue
        if survey.is_journaled(entry.name, entry.type) and not any(
            kind == entry.type and survey.matches_topic(pattern, entry.name) for pattern, kind in patterns
        ):
            return f"'{entry.name}' is not replicated to it"
    return None


def client_age_limit(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: ClientMessageAgeLimit is set in an instance with SOW topics.

    Why: a client whose oldest waiting message is older than this is disconnected, and the result of a large SOW query
    can wait long on a slow link.
    Example: ``<ClientMessageAgeLimit>90s</ClientMessageAgeLimit>``.
    Instead: make it longer than the slowest client needs for the largest query, or use ClientMaxCapacity.
    """
    if not survey.entries:
        return
    for owner in (node, *survey.find_nodes("Transport")):
        given = owner.find("ClientMessageAgeLimit")
        number = read_interval(given)
        if given is not None and number:
            age = format_interval_text(number)
            message = f"ClientMessageAgeLimit {age}: large SOW queries over slow links may be cut off"
            yield Problem(
                given, message, "increase it above the time that the slowest client needs for its largest query"
            )


def memory_limit(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: MessageMemoryLimit is more than a fifth of the memory.

    Why: waiting messages can then displace other data, and the machine swaps.
    Example: ``<MessageMemoryLimit>32GB</MessageMemoryLimit>`` with ``<!-- sowctl: assume memory=64GB -->``.
    Instead: 10 percent of the memory, which is the default. The rule applies only if such a comment states the memory.
    """
    memory = survey.facts.memory
    if memory is None:
        return
    for owner in (node, *survey.find_nodes("Transport")):
        given = owner.find("MessageMemoryLimit")
        number = read_size(given)
        if given is not None and number is not None and MEMORY_SHARE_DIVISOR * number > memory:
            message = f"MessageMemoryLimit {given.text} is above 20% of memory ({format_size_text(memory)})"
            yield Problem(given, message, f"write {_round_number(memory // 10)} or less; more may cause swapping")


def _round_number(number: int) -> str:
    return f"{number >> 20}MB"


def tcp_with_certificate(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: a Transport of type tcp with Certificate and PrivateKey.

    Why: both together enable TLS, which the type does not show.
    Example: ``<Type>tcp</Type>`` beside ``<Certificate>`` and ``<PrivateKey>``.
    Instead: ``<Type>tcps</Type>``.
    """
    kind = node.find("Type")
    if kind is not None and kind.text.lower() == "tcp" and node.find("Certificate") and node.find("PrivateKey"):
        yield Problem(kind, "tcp Transport with Certificate and PrivateKey is TLS", "write <Type>tcps</Type>")
