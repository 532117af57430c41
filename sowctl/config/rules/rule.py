"""What a rule is and how one is run: an id, a level, a subject, and a function over each node of the subject.

A rule function takes a node and the :class:`~sowctl.config.rules.survey.Survey` and yields
:class:`Problem`; it knows neither its id nor its level. Its docstring is what ``explain`` shows:
What, Why, Example, Instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from typing import NamedTuple, TypeAlias

from sowctl.config.document import Node
from sowctl.config.problems import at_node
from sowctl.config.rules.survey import Survey
from sowctl.findings import Finding, Level, Place


class Problem(NamedTuple):
    """A rule broken at ``node``, or at a place inside its text; ``warning`` lowers the level of the rule."""

    node: Node
    message: str
    hint: str | None = None
    place: Place | None = None
    warning: bool = False


RuleFunction: TypeAlias = Callable[[Node, Survey], Iterable[Problem]]


class Rule(NamedTuple):
    """A row of the table. ``function`` is ``module.name`` below this package, imported when the rule runs."""

    id: str
    level: Level
    subject: str
    """What it looks at: an element's name, or AMPSConfig for the whole."""
    function: str
    at_load: bool = False
    """Whether a command that only loads must stop at it: the model would be wrong or meaningless."""

    def load(self) -> RuleFunction:
        """The function behind the name."""
        module, name = self.function.rsplit(".", 1)
        found: RuleFunction = getattr(import_module(f"sowctl.config.rules.{module}"), name)
        return found

    def run(self, survey: Survey) -> Iterator[Finding]:
        """The findings of this rule, in document order."""
        function = self.load()
        for node in survey.nodes(self.subject):
            for problem in function(node, survey):
                level = Level.WARNING if problem.warning else self.level
                yield at_node(self.id, problem.node, problem.message, problem.hint, level=level, place=problem.place)
