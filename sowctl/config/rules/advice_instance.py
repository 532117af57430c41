"""Advice on the instance as a whole: its name, paths, secrets, switches, and unused definitions."""

from __future__ import annotations

import re
from collections.abc import Iterator

from sowctl.config.document import VARIABLE_PATTERN, ElementNode
from sowctl.config.rules.measures import read_switch
from sowctl.config.rules.rule import Problem
from sowctl.config.rules.subjects import BUILT_IN_TYPES, is_replication, is_transient
from sowctl.config.rules.survey import Survey

_SECRET_NAME_PATTERN = (
    r"(?i)password|passwd|passphrase|secret|api_?-?key|access_?-?key|auth\w*_?-?token|^token$|credential"
)
_PUBLIC_NAME_PATTERN = (
    r"(?i)(file|path|directory|dir|uri|url|name|variable|env|length|policy|expiration|timeout|interval)$"
)
_URL_SECRET_PATTERN = r"://[^/\s:@]+:[^/\s@{]+@"
_HEADER_SECRET_PATTERN = r"(?i)\bauthorization\s*:\s*(?:basic|bearer)\s+[^\s{]"
_UNVERIFIED_OPTIONS = frozenset({"AllowSelfSigned", "AllowUnverifiedPeer"})
_TRANSPORT_PATHS = ("FileName", "MessageDiskPath", "Certificate", "PrivateKey", "CAFile", "CAPath")


def numa_tuned(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: NUMA tuning is switched on.

    Why: it binds threads to processors, which is harmful on shared hosts, in virtual machines and in containers.
    Example: ``<NUMA><Enabled>enabled</Enabled></NUMA>``.
    Instead: write ``disabled`` on such machines. On a dedicated host, remove the line: enabled is the default.
    """
    for numa in node.find_all("NUMA"):
        enabled = numa.find("Enabled")
        if enabled is not None and read_switch(enabled):
            message = "NUMA tuning enabled; disable on shared hosts, VMs, containers"
            yield Problem(enabled, message, "write disabled there; elsewhere remove it, since enabled is the default")


def relative_path(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: a relative path in an instance that listens.

    Why: a server resolves it against its working directory, which differs between a service and a shell; sowctl
    resolves it against the directory of the configuration. Several paths in one directory are reported once.
    Example: ``<JournalDirectory>./journals</JournalDirectory>``.
    Instead: write ``/var/lib/shop/journals``, or ``${AMPS_CONFIG_DIRECTORY}/journals``.
    """
    if not survey.has_listener:
        return
    places: dict[str, list[tuple[ElementNode, str]]] = {}
    for found, text in _iterate_paths(survey):
        absolute = text.startswith(("/", "{{", "${", "file:")) or "://" in text
        if text and not absolute and text not in (":memory:", "disabled"):
            directory = text.removeprefix("./").rpartition("/")[0]
            places.setdefault(directory or text, []).append((found, text))
    for uses in places.values():
        found, text = uses[0]
        more = f" (and {len(uses) - 1} more there)" if len(uses) > 1 else ""
        message = f"relative path '{text}'{more} depends on the working directory of the server"
        start = "${AMPS_CONFIG_DIRECTORY}/" + text.removeprefix("./")
        yield Problem(found, message, f"write an absolute path, such as {start}")


def _iterate_paths(survey: Survey) -> Iterator[tuple[ElementNode, str]]:
    """The elements that hold a path, and the path, in document order of their sections."""
    top = survey.top
    for owner, names in (
        (top, ("MessageDiskPath", "MiniDumpDirectory")),
        *((admin, ("FileName", "Certificate", "PrivateKey")) for admin in survey.find_nodes("Admin")),
        *((transport, _TRANSPORT_PATHS) for transport in survey.find_nodes("Transport")),
        *((target, ("FileName",)) for target in survey.find_nodes("Target")),
        *((log, ("JournalDirectory", "JournalArchiveDirectory")) for log in survey.find_nodes("TransactionLog")),
        *(
            (link, _TRANSPORT_PATHS)
            for other in survey.find_nodes("Destination")
            for link in other.find_all("Transport")
        ),
    ):
        yield from ((child, child.text) for child in owner.find_all(*names))
    for entry in survey.entries:
        if entry.kind == "Topic" and not is_transient(entry.node):
            yield from ((file, file.text) for file in entry.node.find_all("FileName"))
        for generator in entry.node.find_all("KeyGenerator"):
            for options in generator.find_all("Options"):
                yield from ((file, file.text) for file in options.find_all("FileName"))
    for module in survey.find_nodes("Module"):
        yield from ((library, library.text) for library in module.find_all("Library") if "/" in library.text)
    for kind in survey.find_nodes("MessageType"):
        yield from ((path, path.text.rpartition(";")[2]) for path in kind.find_all("ProtoPath"))
    for step in survey.find_steps("do-remove-files", "do-compress-files", "if-file-system-usage"):
        for name in ("Pattern", "Path"):
            if (option := step.find_option(name)) is not None:
                yield option, option.text


def awkward_instance_name(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: the Name of the instance has a space, ``/``, ``\\``, ``$`` or ``~``.

    Why: it is part of the names of journal files, and awkward in shells.
    Example: ``<Name>My Server</Name>``.
    Instead: use letters, digits, ``-``, ``_`` and dots.
    """
    name = node.find("Name")
    if name is not None and (found := sorted(set(name.text) & set(" /\\$~\t\n"))):
        listed = ", ".join("a space" if character.isspace() else character for character in found)
        message = f"instance Name '{name.text}' contains {listed}; it is used in file names and shell commands"
        yield Problem(name, message, "use letters, digits, -, _ and dots")


def clear_secret(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: a password, token or key is written into the file.

    Why: everybody who can read the file learns the secret, and the admin interface shows the whole file.
    Example: ``<Password>hunter2</Password>`` in the Options of a module.
    Instead: let the module read a file, if it can. ``${NAME}`` keeps the secret out of this file, but not out of the
    admin interface, which then needs Authentication.
    """
    for found in survey.document_nodes:
        if found.children or not found.text or "{{" in found.text:
            continue
        # The name of a file or variable that holds a secret is not secret, nor is a path.
        named = (
            re.search(_SECRET_NAME_PATTERN, found.tag)
            and not re.search(_PUBLIC_NAME_PATTERN, found.tag)
            and found.text[0] not in "/."
        )
        if (
            named
            or ("://" in found.text and re.search(_URL_SECRET_PATTERN, found.text))
            or re.search(_HEADER_SECRET_PATTERN, found.text)
        ):
            # The text as written: a variable keeps the secret out of the file, although the loaded text has its value.
            raw = found.source.text[found.inner : found.source.text.find("<", found.inner)]
            if not re.search(VARIABLE_PATTERN, raw):
                message = f"secret in clear text ({found.tag}); the admin interface shows it"
                yield Problem(
                    found,
                    message,
                    "let the module read a file, or write ${NAME} and guard the admin interface",
                    secret=True,
                )


def unverified_peer(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: an option of a module switches the verification of certificates off.

    Why: any program can pose as the other side, so the encryption protects nothing.
    Example: ``<AllowSelfSigned>true</AllowSelfSigned>``.
    Instead: remove it, and configure the authority that signed the certificate.
    """
    for found in survey.document_nodes:
        if found.tag in _UNVERIFIED_OPTIONS and found.text.lower() not in ("", "false", "disabled", "no", "0"):
            message = f"TLS verification switched off ({found.tag})"
            yield Problem(found, message, "remove it, and configure the authority that signed the certificate")


def unused_definition(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: a Module, MessageType or Protocol that nothing refers to.

    Why: it is unused, or a reference to it is misspelled. Message types that a Transport of any type may carry, and
    modules that add functions when they are loaded, count as used.
    Example: a Protocol ``web`` in Protocols, and no Transport with ``<Protocol>web</Protocol>``.
    Instead: remove it, or refer to it.
    """
    # A definition that is unused here may be used in a missing part.
    if not survey.is_complete or survey.top.inner < 0:
        return
    for subject, used in (
        ("Module", _module_words(survey)),
        ("MessageType", _type_words(survey)),
        ("Protocol", {transport.find_text("Protocol") for transport in survey.find_nodes("Transport")}),
    ):
        for found in survey.find_nodes(subject):
            name = found.find_text("Name")
            # A library of functions works by being loaded, without a reference to its name.
            if name and name not in used and "udf" not in (found.find_text("Library") or ""):
                yield Problem(
                    found, f"unused {subject} '{name}'", "remove it, or correct the reference that should name it"
                )


def _module_words(survey: Survey) -> set[str | None]:
    """Every text outside Modules, and every option in it: modules are referred to in too many places to list them."""
    own = {id(child) for module in survey.find_nodes("Module") for child in module.find_all("Name", "Library")}
    return {found.text for found in survey.document_nodes if not found.children and id(found) not in own}


def _type_words(survey: Survey) -> set[str | None]:
    clients = [transport for transport in survey.find_nodes("Transport") if not is_replication(transport)]
    defined = {kind.find_text("Name") for kind in survey.find_nodes("MessageType")}
    # A transport without MessageType carries messages of every defined type.
    if any(transport.find("MessageType") is None for transport in clients):
        return defined
    return {*BUILT_IN_TYPES, *(found.text for found in survey.document_nodes if found.tag == "MessageType")}


def validation_off(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: ConfigValidation is disabled.

    Why: a server then uses invalid values, with unpredictable effects, including data loss. sowctl still checks them.
    Example: ``<ConfigValidation>disabled</ConfigValidation>``.
    Instead: remove it, and correct the errors that the server reports.
    """
    given = node.find("ConfigValidation")
    if given is not None and read_switch(given) is False:
        message = "ConfigValidation disabled: unpredictable effects, including data loss"
        yield Problem(given, message, "remove it, and correct the errors that are then reported")


def batch_size(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: BatchSize in a configuration.

    Why: it is not a configuration element but a parameter of the ``sow`` command, which a client sets, up to 10,000.
    Example: ``<BatchSize>1000</BatchSize>`` in a Topic.
    Instead: remove it here, and set it in the client.
    """
    for found in survey.document_nodes:
        if found.tag == "BatchSize":
            yield Problem(found, "BatchSize is not a configuration element", "set it in the client's sow command")
