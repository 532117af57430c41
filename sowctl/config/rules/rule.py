"""The parts of a rule: its row in the table, its page, its tests, and the running of its checks.

**A rule is one row** of :data:`sowctl.config.rules.table.RULES`: id, level, title, element and checks. Every id that a
finding may carry has exactly one row, whether its check is a function here, a column of the element table, the loader
or the check of expressions.

- ``level`` is its severity; if some of its findings are milder or more severe, ``also`` is the other severity and the
  function yields ``Problem(..., level=...)`` for those.
- ``title`` is its short name in lower case with hyphens, unique, at most 40 characters: ``lint --select``, ``--ignore``
  and ``--explain`` accept it instead of the id.
- ``element`` is the place in the file where it applies, for people: ``SOW/Topic``, ``Transports/Transport/InetAddr``.
- ``checks`` are pairs of a subject and a function, ``("Topic", "topic.persistent_without_file")``: the function
  ``persistent_without_file`` of ``sowctl/config/rules/topic.py`` is called with each node of the subject (see
  :meth:`~sowctl.config.rules.survey.Survey.find_nodes`) and the :class:`~sowctl.config.rules.survey.Survey`, and yields
  :class:`Problem`. It knows neither its id nor its level, never raises for the content of the file, and checks only
  well-formed values (another rule reports the others). The module is imported when the rule first runs.

**A rule is documented once**, by a page of four headings, each at the start of a line, in this order::

        What: the construct that is found, in one sentence, beginning with a small letter.

        Why: its consequence.
        Example: a few words or a snippet in double back-quotes.
        Instead: the alternative to write.

The page is the docstring of the rule's function, of the first if there are several. A rule without a function, or whose
function covers only a part of it, has its page in :mod:`sowctl.config.rules.pages`. ``lint --explain`` and
sowctl-lint(7) are generated from the pages; a test fails for an id without a page and for a page without an id.

**A rule is tested by files**: ``tests/config/rules/cases/ID-bad.xml`` breaks it and ``ID-good.xml`` does not; the
module docstring of ``tests/config/rules/test_cases.py`` describes their markers.

**To add a rule**: put the function into the module of its element (the docstring of this package lists them); the row
of advice, an id that begins with B, into :mod:`sowctl.config.rules.table_advice`, any other row into
:mod:`sowctl.config.rules.table`. Then ``python -m sowctl.cli.manual man/`` regenerates sowctl-lint(7), and README
states the number of rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from sowctl.config.document import ElementNode
from sowctl.config.problems import build_node_finding
from sowctl.config.rules.survey import Survey
from sowctl.findings import Finding, Level, Place


class Problem(Struct, frozen=True):
    """A rule broken at ``node``, or at a place inside its text; ``level`` if it differs from the rule's own.

    With ``secret`` the line is not shown, because its content must not be logged.
    """

    node: ElementNode
    message: str
    hint: str | None = None
    place: Place | None = None
    level: Level | None = None
    secret: bool = False


RuleFunction: TypeAlias = Callable[[ElementNode, Survey], Iterable[Problem]]


class Rule(Struct, frozen=True):
    """A row of the table; the docstring of this module describes its columns."""

    id: str
    level: Level
    title: str
    element: str
    checks: tuple[tuple[str, str], ...] = ()
    also: Level | None = None

    @property
    def worst_level(self) -> Level:
        """The highest level that a finding of this rule may have."""
        return max(self.level, self.also or self.level)

    def resolve_functions(self) -> Iterator[tuple[str, RuleFunction]]:
        """The subjects and functions of the checks."""
        for subject, path in self.checks:
            module, name = path.rsplit(".", 1)
            found: RuleFunction = getattr(import_module(f"sowctl.config.rules.{module}"), name)
            yield subject, found

    def run(self, survey: Survey) -> Iterator[Finding]:
        """The findings of the checks, in document order for each."""
        for subject, function in self.resolve_functions():
            for node in survey.find_nodes(subject):
                for problem in function(node, survey):
                    level = self.level if problem.level is None else problem.level
                    found = build_node_finding(
                        self.id, problem.node, problem.message, problem.hint, level=level, place=problem.place
                    )
                    # The excerpt is the line of the file, which contains the secret.
                    yield replace(found, excerpt=None) if problem.secret else found
