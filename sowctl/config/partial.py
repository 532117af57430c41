"""What cannot be judged because a part of the configuration is not there: a fragment, or an include that is missing.

A rule that calls something undefined is silent where the section that would define it is unknown: absent from a
fragment, made up around its loose entries, misspelled, or with a hole where an include could not be read or a variable
is not set. Called by :mod:`sowctl.config.validate`. Ruled by ``sow-config(5)``, fragments.
"""

from __future__ import annotations

from collections.abc import Iterable

from sowctl.config.document import Document
from sowctl.config.spelling import meant

_DEFINED_IN: dict[str, tuple[str, ...]] = {
    "MessageTypes": ("R001",),
    "Modules": ("R002", "F019"),
    "Protocols": ("R003", "R010"),
    "Transports": ("R010", "R011"),
    "SOW": ("R004", "R011", "R017"),
    "TransactionLog": ("R008", "R009", "R014", "R023", "R028", "F029", "F031"),
    "Replication": ("R016",),
}
"""By section, the rules that look there for what something else refers to."""
_OTHER_NAMES = {"SOW": ("TopicMetaData",)}


def unknowable(document: Document, unset: Iterable[str] = ()) -> frozenset[str]:
    """The rules that this document gives no reason to call broken; ``unset`` are the elements with a variable unset."""
    holes = {element.split("/")[2].partition("[")[0] for element in unset if element.count("/") > 1}
    whole = document.top.complete and not document.fragment
    silent: set[str] = set()
    for section, rules in _DEFINED_IN.items():
        nodes = list(document.top.all(section, *_OTHER_NAMES.get(section, ())))
        if not nodes:
            known = whole and not meant(document.top, section)
        else:
            known = all(node.complete and node.inner >= 0 and node.tag not in holes for node in nodes)
        if not known:
            silent.update(rules)
    return frozenset(silent)
