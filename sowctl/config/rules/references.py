"""Rules about names that refer to something: message types, modules, protocols, and names given twice."""

from __future__ import annotations

from collections.abc import Iterator

from sowctl.config.document import ElementNode
from sowctl.config.rules.rule import Problem
from sowctl.config.rules.subjects import BUILT_IN_TYPES, TYPE_MODULES, file_of_library, replicates
from sowctl.config.rules.survey import Survey
from sowctl.config.spelling import nearest

PROTOCOLS = frozenset({"amps", "json", "websocket", "fix-session", "fix", "nvfix", "soap", "xml"})
SECURITY_MODULES = frozenset(
    {
        "amps-default-authentication-module",
        "amps-implicit-authentication-module",
        "amps-default-no-authentication-module",
        "amps-default-entitlement-module",
        "amps-default-no-entitlement-module",
        "amps-default-authenticator-module",
    }
)
FILTER_MODULES = frozenset({"amps-topic-translator", "amps-conflated-topic-translator"})


def _unknown_type(node: ElementNode | None, survey: Survey) -> Iterator[Problem]:
    if node is not None and node.text and node.text not in survey.types:
        close = nearest(node.text, survey.types)
        hint = f"did you mean {close}?" if close else "define it in MessageTypes"
        yield Problem(node, f"message type '{node.text}' is neither built in nor defined", hint)


def entry_type(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: the MessageType of a SOW entry is not known.

    Why: nothing could read the messages.
    Example: ``<MessageType>protobuf-order</MessageType>`` without a definition.
    Instead: use a built-in type, or define the name in MessageTypes.
    """
    yield from _unknown_type(node.find("MessageType"), survey)


def other_types(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: a transport, journal topic, composite part, replicated topic or action names an unknown message type.

    Why: the reference cannot be resolved.
    Example: ``<MessageType>jsn</MessageType>`` in a Topic of TransactionLog.
    Instead: use a built-in type, or define the name in MessageTypes.
    """
    for transport in survey.nodes("Transport"):
        yield from _unknown_type(transport.find("MessageType"), survey)
    for topic in survey.children("TransactionLog", "Topic"):
        yield from _unknown_type(topic.find("MessageType"), survey)
    for destination in survey.nodes("Destination"):
        for topic in destination.all("Topic"):
            yield from _unknown_type(topic.find("MessageType"), survey)
    yield from _parts(survey)
    for action in survey.nodes("Action"):
        for step in action.all("On", "If", "Do"):
            for option in (option for options in step.all("Options") for option in options.all("MessageType")):
                # What stands in double braces is filled in when the action runs.
                if "{{" not in option.text:
                    yield from _unknown_type(option, survey)


def _parts(survey: Survey) -> Iterator[Problem]:
    """The parts of composite types: what they name must be built in or defined before them."""
    # Types are made in the order of the file, so a part must be known by then.
    before = set(BUILT_IN_TYPES)
    for message_type in survey.nodes("MessageType"):
        for part in message_type.all("MessageType"):
            if part.text in survey.types and part.text not in before:
                message = f"message type '{part.text}' is neither built in nor defined before this one"
                yield Problem(part, message, f"move the definition of {part.text} before it")
            else:
                yield from _unknown_type(part, survey)
        before.add(message_type.value("Name") or "")


def _modules_used(survey: Survey) -> Iterator[tuple[ElementNode, frozenset[str]]]:
    top = survey.top
    for place in (top, *top.all("Admin"), *survey.nodes("Transport")):
        for section in place.all("Authentication", "Entitlement"):
            yield from ((module, SECURITY_MODULES) for module in section.all("Module"))
        for section in place.all("TransportFilter"):
            yield from ((module, FILTER_MODULES) for module in section.all("Module"))
    for entry in survey.entries:
        for section in entry.node.all("KeyGenerator"):
            yield from ((module, frozenset()) for module in section.all("Module"))
    for message_type in survey.nodes("MessageType"):
        yield from ((module, TYPE_MODULES) for module in message_type.all("Module"))
    for protocol in survey.nodes("Protocol"):
        yield from ((module, PROTOCOLS) for module in protocol.all("Module"))
    for function in survey.nodes("Function"):
        yield from ((module, frozenset()) for module in function.all("Module"))
    for destination in survey.nodes("Destination"):
        for transport in destination.all("Transport"):
            for section in transport.all("Authenticator"):
                yield from ((module, SECURITY_MODULES) for module in section.all("Module"))


def undefined_module(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: a Module that is neither built in nor loaded in Modules.

    Why: the instance cannot start without it.
    Example: a KeyGenerator with ``<Module>key-generator</Module>`` and no Modules section.
    Instead: add the Module with its Library to Modules.
    """
    for module, built_in in _modules_used(survey):
        name = module.text
        if name and name not in built_in and name not in survey.modules:
            close = nearest(name, (*built_in, *survey.modules))
            hint = f"did you mean {close}?" if close else "add it to Modules with its Library"
            yield Problem(module, f"module '{name}' is not defined in Modules", hint)


def generator_not_registered(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: a KeyGenerator whose module is neither built in nor registered by an installed Python package.

    Why: a Library is never loaded; without a Python replacement, nothing can be published to the topic with sowctl.
    Example: ``<Library>libkeys.so</Library>`` for a module that only a server knows.
    Instead: install a package that registers the module's Name in ``sowctl.key_generators``; see sowctl-plugins(7).
    """
    from importlib.metadata import entry_points

    from sowctl.config.actions import CHAINING, KEY_GENERATORS

    libraries = {module.value("Name"): file_of_library(module) for module in survey.nodes("Module")}
    for generator in node.all("KeyGenerator"):
        for module in generator.all("Module"):
            name = module.text
            # The chaining generator is built in, and known by the name of its Library.
            built_in = CHAINING in libraries.get(name, "")
            if name in libraries and not built_in and not entry_points(group=KEY_GENERATORS, name=name):
                message = (
                    f"no installed Python package provides the key generator '{name}'; its Library is never loaded"
                )
                yield Problem(module, message, f"install a Python package that registers '{name}' in {KEY_GENERATORS}")


def undefined_protocol(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: a Transport names a Protocol that is neither built in nor defined.

    Why: the transport cannot be opened.
    Example: ``<Protocol>web-socket</Protocol>``.
    Instead: use ``amps`` or ``websocket``, or define the name in Protocols.
    """
    protocol = node.find("Protocol")
    if protocol is None or not protocol.text or replicates(node):
        return
    defined = [other.value("Name") or "" for other in survey.nodes("Protocol")]
    if protocol.text not in PROTOCOLS and protocol.text not in defined:
        close = nearest(protocol.text, (*PROTOCOLS, *defined))
        hint = f"did you mean {close}?" if close else "define it in Protocols"
        yield Problem(protocol, f"protocol '{protocol.text}' is neither built in nor defined", hint)


def duplicate_names(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: two transports, modules, message types, protocols or functions of one name.

    Why: a reference to the name would be ambiguous.
    Example: two Transports ``any-tcp``.
    Instead: rename one.
    """
    for subject in ("Transport", "Module", "MessageType", "Protocol", "Function"):
        first: dict[str, ElementNode] = {}
        for other in survey.nodes(subject):
            name = other.value("Name")
            if name and subject == "Function":
                # Names of functions are written in any letter case.
                name = name.upper()
            if name and first.setdefault(name, other) is not other and not survey.again(other):
                message = f"duplicate {subject} name '{name}' (first at {first[name].place})"
                yield Problem(other, message, "rename one of them")
