"""``sowctl config add view``: a view for an existing configuration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from msgspec import Struct

from sowctl.cli.commands.bodies.config_add import EntryType, Writing
from sowctl.cli.context import Invocation
from sowctl.declarations import Argument, declare_option
from sowctl.engine.options import Filter
from sowctl.errors import UsageError

if TYPE_CHECKING:
    from sowctl.config.model import InstanceConfig

EXAMPLES = (
    "sowctl config add view by-symbol --source orders --grouping /symbol"
    " --projection '/symbol, SUM(/qty) AS /qty, COUNT(/orderId) AS /orders'",
    "sowctl config add view open-orders --source orders --filter \"/status = 'new'\" --grouping /orderId"
    " --projection '/orderId, /symbol'",
    "sowctl config add view by-name --join '[orders]./customerId = [customers]./customerId'"
    " --projection '[customers]./name AS /name, SUM([orders]./qty) AS /qty' --grouping '[customers]./name' --dry-run",
)


class ConfigAddViewArguments(Struct, frozen=True, kw_only=True):
    """Options and operands of ``sowctl config add view``."""

    view: Annotated[str, Argument("VIEW", "Name of the new view.")]
    source: Annotated[
        str | None,
        declare_option(
            "--source", help="Topic, view or queue to compute the view from.", metavar="TOPIC", complete="target"
        ),
    ] = None
    join: Annotated[
        list[str] | None,
        declare_option(
            "--join",
            help="Join condition instead of --source, for example '[a]./x = [b]./y'. May be repeated.",
            metavar="JOIN",
        ),
    ] = None
    projection: Annotated[
        list[str] | None,
        declare_option(
            "--projection",
            help="Fields of the view's messages, for example '/symbol, SUM(/qty) AS /qty'. May be repeated.",
            metavar="FIELDS",
        ),
    ] = None
    grouping: Annotated[
        list[str] | None,
        declare_option(
            "--grouping",
            help="Fields to group by: the view has a message for each combination of values. May be repeated.",
            metavar="FIELDS",
        ),
    ] = None
    filter: Filter = None
    message_type: EntryType = None
    writing: Writing = Writing()


def run(invocation: Invocation, arguments: ConfigAddViewArguments) -> int:
    """Add a view to a configuration.

    For a view that only filters or projects, group by the key fields of the source. The new elements are printed with
    their places in the file. Comments and formatting of the file stay, and it is replaced as a whole. The command is
    refused, and the file not changed, if sowctl validate would report an error; new advice of sowctl lint is printed as
    a warning.
    """
    from sowctl.cli.commands.bodies.config_add import open_config, write_addition
    from sowctl.config.additions import NewPart
    from sowctl.config.new_elements import build_view

    if (arguments.source is None) == (not arguments.join):
        what = "--source and --join exclude each other" if arguments.join else "--source or --join is required"
        raise UsageError("SOW-CFG-069", what, hint="name the topic to read, for example --source orders")
    missing = [name for name in ("projection", "grouping") if not getattr(arguments, name)]
    if missing:
        raise UsageError(
            "SOW-CFG-069",
            f"a view requires {' and '.join(f'--{name}' for name in missing)}",
            hint="for example --projection '/symbol, SUM(/qty) AS /qty' --grouping /symbol; "
            "to filter only, group by the key fields of the source",
        )
    config = open_config(invocation, arguments.writing)
    kind = arguments.message_type or _find_source_type(config.config, arguments.source, arguments.join or ())
    element = build_view(
        arguments.view,
        kind,
        source=arguments.source,
        joins=arguments.join or (),
        projection=arguments.projection or (),
        grouping=arguments.grouping or (),
        filter=arguments.filter,
    )
    addition = config.add_parts([NewPart("SOW", element)])
    return write_addition(invocation, config, addition, arguments.writing, f"added view {arguments.view}")


def _find_source_type(config: InstanceConfig, source: str | None, joins: Sequence[str]) -> str:
    """The message type of the source, or of the first joined one; json if it is unknown."""
    from sowctl.expressions.syntax.errors import ExpressionError
    from sowctl.expressions.syntax.joins import parse_join

    if source is None:
        try:
            side = parse_join(joins[0]).left
        except ExpressionError:
            # Validation reports it.
            return "json"
        if side.message_type is not None:
            return side.message_type
        source = side.topic
    return next((entry.message_type for entry in config.find_entries(source)), "json")
