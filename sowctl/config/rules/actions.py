"""Rules of Actions: known modules, and the options that these must or may have.

Run from :mod:`sowctl.config.rules.table`; :mod:`sowctl.config.rules.targets` checks the objects that an action refers
to. Ruled by ``sow-config(5)``, actions.
"""

from __future__ import annotations

from collections.abc import Iterator

from sowctl.config import expression_texts
from sowctl.config.document import ElementNode
from sowctl.config.elements.element import Element
from sowctl.config.elements.modules import ACTION_MODULES, MODULE_CORRECTIONS, NONEXISTENT_MODULES, Module
from sowctl.config.kinds import read_value
from sowctl.config.rules.rule import Problem
from sowctl.config.rules.survey import Survey
from sowctl.config.structure import find_odd_interval
from sowctl.config.suggestions import find_nearest, has_misspelled_child
from sowctl.findings import Level


def iterate_steps(action: ElementNode) -> Iterator[tuple[ElementNode, ElementNode, Module | None]]:
    """The On, If and Do of an action with their Module element and its row, if the module is known."""
    for step in action.find_all("On", "If", "Do"):
        module = step.find("Module")
        if module is not None and module.text:
            yield step, module, ACTION_MODULES[step.tag].get(module.text)


def unknown_module(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: the Module of an On, If or Do is not known.

    Why: an instance refuses to start with an unknown module.
    Example: ``amps-action-do-delete-old-journal-files``.
    Instead: write a module that exists; amps-action-do-remove-journal removes journals.
    """
    for step, module, known in iterate_steps(node):
        # A module that the file loads may be an action known only to its author.
        if known is None and module.text not in survey.modules and module.text not in MODULE_CORRECTIONS:
            names = ACTION_MODULES[step.tag]
            other = [tag for tag, table in ACTION_MODULES.items() if module.text in table]
            # Some invented names are frequent; their intended meaning is known better than their spelling suggests.
            close = NONEXISTENT_MODULES.get(module.text) or find_nearest(module.text, names)
            hint = f"it is a module of {other[0]}" if other else f"did you mean {close}?" if close else None
            yield Problem(module, f"'{module.text}' is not a known {step.tag} action module", hint)


def misspelled_module(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: a Do module whose name is a common misspelling.

    Why: the name is often copied from other configurations, but no such module exists.
    Example: ``amps-action-do-remove-journals``.
    Instead: ``amps-action-do-remove-journal``.
    """
    for _, module, known in iterate_steps(node):
        if known is None and module.text in MODULE_CORRECTIONS:
            real = MODULE_CORRECTIONS[module.text]
            yield Problem(module, f"'{module.text}' is a common misspelling of {real}", f"write {real}")


def option_missing(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: an action module without an option that it requires.

    Why: the module has no default for it.
    Example: ``amps-action-do-delete-sow`` without Filter.
    Instead: add the option to Options; to delete everything write ``<Filter>1=1</Filter>``.
    """
    for step, module, known in iterate_steps(node):
        options = step.find("Options")
        # Options exists under a misspelt name, which S002 reports.
        if options is None and has_misspelled_child(step, "Options"):
            continue
        for name in known.required if known is not None else ():
            if options is None or options.find(name) is None:
                close = next((o for o in options.children if find_nearest(o.tag, (name,))), None) if options else None
                hint = f"write <{name}> for <{close.tag}>" if close is not None else f"add <{name}> to Options"
                yield Problem(options or step, f"{module.text} requires option {name}", hint)


def unknown_option(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: an option that the action module does not document; an error if it is a misspelling of an existing one.

    Why: a module ignores unknown options, so the action does not do what the file says.
    Example: ``<Crontab>0 2 * * *</Crontab>`` for amps-action-on-schedule.
    Instead: write an option of the module; sow-config(5) lists them.
    """
    for step, module, known in iterate_steps(node):
        options = step.find("Options")
        if known is None or options is None:
            continue
        for option in options.children:
            if option.tag in known.options:
                continue
            close = find_nearest(option.tag, known.options)
            if close in known.required and options.find(close) is None:
                # S057 reports the missing required option and its misspelling.
                continue
            message = f"unknown option {option.tag} of {module.text}"
            if close is not None:
                yield Problem(option, f"{message}; did you mean {close}?", f"write <{close}>; names are case-sensitive")
            else:
                has = ", ".join(known.options)
                hint = f"the module has {has}" if has else "remove it; the module has no options"
                yield Problem(option, message, hint, level=Level.WARNING)


def _check_values(action: ElementNode, kinds: tuple[str, ...]) -> Iterator[Problem]:
    for option, kind in _iterate_options(action):
        if kind in kinds:
            try:
                read_value(Element(option.tag, "1", kind), option.text)
            except ValueError as error:
                yield Problem(option, f"{option.tag}: {error}")
                continue
            if kind == "interval" and (odd := find_odd_interval(option.text)) is not None:
                yield Problem(option, f"{option.tag}: {odd[0]}", odd[1], level=Level.WARNING)


def _iterate_options(action: ElementNode) -> Iterator[tuple[ElementNode, str]]:
    """The options of known modules with their kinds, without those with variables of the running action."""
    for step, _, known in iterate_steps(action):
        options = step.find("Options")
        for option in options.children if options is not None and known is not None else ():
            kind = known.options.get(option.tag, "") if known is not None else ""
            if kind and "{{" not in option.text:
                yield option, kind


def not_a_schedule(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: Every is neither an interval nor a time of day.

    Why: the action would never run.
    Example: ``<Every>daily</Every>``.
    Instead: ``4h``, ``02:00``, ``02:00Z`` or ``Sunday at 02:00``.
    """
    yield from _check_values(node, ("every",))


def not_a_percentage(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: GreaterThan is not a percentage.

    Why: the usage of a file system is compared in percent.
    Example: ``<GreaterThan>90</GreaterThan>``.
    Instead: ``90%``.
    """
    yield from _check_values(node, ("usage",))


def not_an_interval(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: Age, Duration or GracePeriod is not an interval.

    Why: the unit is required to determine what is removed.
    Example: ``<Age>7 days</Age>``.
    Instead: ``7d``.
    """
    yield from _check_values(node, ("interval",))


def filter_does_not_parse(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: a Filter or Condition of an action that is not a valid expression.

    Why: the action fails each time it runs. Texts with ``{{NAME}}`` are complete only at run time and are not checked.
    Example: ``<Filter>/status = 'done</Filter>``.
    Instead: close the string.
    """
    for option, kind in _iterate_options(node):
        if kind == "filter":
            for finding in expression_texts.check_expression(option, "filter", survey.functions):
                yield Problem(option, finding.message, finding.hint, finding.place)


def not_a_regex(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: the Topic of an action is not a valid regular expression.

    Why: the action could never match a topic.
    Example: ``<Topic>orders[</Topic>``.
    Instead: close the bracket, or escape it.
    """
    for option, kind in _iterate_options(node):
        if kind == "regex":
            for finding in expression_texts.check_regex(option):
                yield Problem(option, finding.message, finding.hint, finding.place)


def event_or_variable(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: execute-event with both Event and EventVariable, or with neither.

    Why: it raises one event.
    Example: ``amps-action-do-execute-event`` without Options.
    Instead: give exactly one of the two.
    """
    for step, module, _ in iterate_steps(node):
        options = step.find("Options")
        given = 0 if options is None else sum(options.find(name) is not None for name in ("Event", "EventVariable"))
        if module.text == "amps-action-do-execute-event" and given != 1:
            yield Problem(
                options or step, "execute-event requires exactly one of Event, EventVariable", "give one of them"
            )


def compact_topic_and_type(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: compact-sow with Topic and no MessageType, or the reverse.

    Why: together they name one topic; without both, all topics are compacted.
    Example: only ``<Topic>orders</Topic>``.
    Instead: give both or neither.
    """
    for step, module, _ in iterate_steps(node):
        options = step.find("Options")
        if module.text != "amps-action-do-compact-sow" or options is None:
            continue
        if (options.find("Topic") is None) != (options.find("MessageType") is None):
            message = "compact-sow takes Topic and MessageType together or neither"
            yield Problem(options, message, "add the other, or remove this one")
