"""Rules about names that refer to something: message types, modules, protocols, and names given twice."""

from __future__ import annotations

from collections.abc import Iterator

from sowctl.config.document import ElementNode
from sowctl.config.rules.rule import Problem
from sowctl.config.rules.subjects import BUILT_IN_TYPES, TYPE_MODULES, is_replication, read_library_name
from sowctl.config.rules.survey import Survey
from sowctl.config.suggestions import find_nearest

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
        close = find_nearest(node.text, survey.types)
        hint = f"did you mean {close}?" if close else "define it in MessageTypes"
        yield Problem(node, f"message type '{node.text}' is neither built in nor defined", hint)


def unknown_entry_type(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: the MessageType of a SOW entry is not known.

    Why: nothing could read the messages.
    Example: ``<MessageType>protobuf-order</MessageType>`` without a definition.
    Instead: use a built-in type, or define the name in MessageTypes.
    """
    yield from _unknown_type(node.find("MessageType"), survey)


def unknown_other_type(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: a transport, journal topic, composite part, replicated topic or action names an unknown message type.

    Why: the reference cannot be resolved.
    Example: ``<MessageType>jsn</MessageType>`` in a Topic of TransactionLog.
    Instead: use a built-in type, or define the name in MessageTypes.
    """
    for transport in survey.find_nodes("Transport"):
        yield from _unknown_type(transport.find("MessageType"), survey)
    for topic in survey.find_children("TransactionLog", "Topic"):
        yield from _unknown_type(topic.find("MessageType"), survey)
    for destination in survey.find_nodes("Destination"):
        for topic in destination.find_all("Topic"):
            yield from _unknown_type(topic.find("MessageType"), survey)
    yield from _check_parts(survey)
    for action in survey.find_nodes("Action"):
        for step in action.find_all("On", "If", "Do"):
            for option in (
                option for options in step.find_all("Options") for option in options.find_all("MessageType")
            ):
                # Text in double braces is filled in when the action runs.
                if "{{" not in option.text:
                    yield from _unknown_type(option, survey)


def _check_parts(survey: Survey) -> Iterator[Problem]:
    """The parts of composite types: each must be built in or defined before the type."""
    # Types are created in file order, so a part must be known by then.
    before = set(BUILT_IN_TYPES)
    for message_type in survey.find_nodes("MessageType"):
        for part in message_type.find_all("MessageType"):
            if part.text in survey.types and part.text not in before:
                message = f"message type '{part.text}' is neither built in nor defined before this one"
                yield Problem(part, message, f"move the definition of {part.text} before it")
            else:
                yield from _unknown_type(part, survey)
        before.add(message_type.find_text("Name") or "")


def _find_used_modules(survey: Survey) -> Iterator[tuple[ElementNode, frozenset[str]]]:
    top = survey.top
    for place in (top, *top.find_all("Admin"), *survey.find_nodes("Transport")):
        for section in place.find_all("Authentication", "Entitlement"):
            yield from ((module, SECURITY_MODULES) for module in section.find_all("Module"))
        for section in place.find_all("TransportFilter"):
            yield from ((module, FILTER_MODULES) for module in section.find_all("Module"))
    for entry in survey.entries:
        for section in entry.node.find_all("KeyGenerator"):
            yield from ((module, frozenset()) for module in section.find_all("Module"))
    for message_type in survey.find_nodes("MessageType"):
        yield from ((module, TYPE_MODULES) for module in message_type.find_all("Module"))
    for protocol in survey.find_nodes("Protocol"):
        yield from ((module, PROTOCOLS) for module in protocol.find_all("Module"))
    for function in survey.find_nodes("Function"):
        yield from ((module, frozenset()) for module in function.find_all("Module"))
    for destination in survey.find_nodes("Destination"):
        for transport in destination.find_all("Transport"):
            for section in transport.find_all("Authenticator"):
                yield from ((module, SECURITY_MODULES) for module in section.find_all("Module"))


def undefined_module(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: a Module that is neither built in nor loaded in Modules.

    Why: the instance cannot start without it.
    Example: a KeyGenerator with ``<Module>key-generator</Module>`` and no Modules section.
    Instead: add the Module with its Library to Modules.
    """
    for module, built_in in _find_used_modules(survey):
        name = module.text
        if name and name not in built_in and name not in survey.modules:
            close = find_nearest(name, (*built_in, *survey.modules))
            hint = f"did you mean {close}?" if close else "add it to Modules with its Library"
            yield Problem(module, f"module '{name}' is not defined in Modules", hint)


def generator_not_registered(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: a KeyGenerator whose module is neither built in nor registered by an installed Python package.

    Why: a Library is never loaded; without a Python replacement, nothing can be published to the topic with sowctl.
    Example: ``<Library>libkeys.so</Library>`` for a module that only a server knows.
    Instead: install a package that registers the module's Name in ``sowctl.key_generators``; see sowctl-plugins(7).
    """
    from importlib.metadata import entry_points

    from sowctl.config.actions import ID_CHAINING_GENERATOR, KEY_GENERATOR_GROUP

    libraries = {module.find_text("Name"): read_library_name(module) for module in survey.find_nodes("Module")}
    for generator in node.find_all("KeyGenerator"):
        for module in generator.find_all("Module"):
            name = module.text
            # The chaining generator is built in, and recognised by the name of its Library.
            built_in = ID_CHAINING_GENERATOR in libraries.get(name, "")
            if name in libraries and not built_in and not entry_points(group=KEY_GENERATOR_GROUP, name=name):
                message = (
                    f"no installed Python package provides the key generator '{name}'; its Library is never loaded"
                )
                yield Problem(
                    module, message, f"install a Python package that registers '{name}' in {KEY_GENERATOR_GROUP}"
                )


def undefined_protocol(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: a Transport names a Protocol that is neither built in nor defined.

    Why: the transport cannot be opened.
    Example: ``<Protocol>web-socket</Protocol>``.
    Instead: use ``amps`` or ``websocket``, or define the name in Protocols.
    """
    protocol = node.find("Protocol")
    if protocol is None or not protocol.text or is_replication(node):
        return
    defined = [other.find_text("Name") or "" for other in survey.find_nodes("Protocol")]
    if protocol.text not in PROTOCOLS and protocol.text not in defined:
        close = find_nearest(protocol.text, (*PROTOCOLS, *defined))
        hint = f"did you mean {close}?" if close else "define it in Protocols"
        yield Problem(protocol, f"protocol '{protocol.text}' is neither built in nor defined", hint)


def duplicate_name(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: two transports, modules, message types, protocols or functions of one name.

    Why: a reference to the name would be ambiguous.
    Example: two Transports ``any-tcp``.
    Instead: rename one.
    """
    for subject in ("Transport", "Module", "MessageType", "Protocol", "Function"):
        first: dict[str, ElementNode] = {}
        for other in survey.find_nodes(subject):
            name = other.find_text("Name")
            if name and subject == "Function":
                # Names of functions are case-insensitive.
                name = name.upper()
            if name and first.setdefault(name, other) is not other and not survey.is_repeated(other):
                message = f"duplicate {subject} name '{name}' (first at {first[name].place})"
                yield Problem(other, message, "rename one of them")
