"""The keywords of verbs that have many, for checkers, editors and ``help()``.

Each class here names the fields of an options class of the engine with the types that a program may give; a test holds
the two together. A method takes them as ``**keywords: Unpack[QueryKeywords]``, which checkers understand, and
:func:`add_signature` gives it a signature that names them one by one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from inspect import Parameter, Signature, signature
from typing import TYPE_CHECKING, Any, Literal, TypedDict, TypeVar, get_args

from msgspec import NODEFAULT, Struct

from sowctl.engine.api.arguments import (
    At,
    Interval,
    Key,
    convert_interval,
    format_keys,
    format_time_text,
    parse_instant,
    require_count,
    require_text,
)
from sowctl.engine.options import DeltaNull, DiffOptions, OnError, QueryOptions, ReplayOptions, SubscribeOptions
from sowctl.errors import UsageError
from sowctl.values.units import MAX_COUNT, MAX_U64

if TYPE_CHECKING:
    from sowctl.engine.instance import Instance

Function = TypeVar("Function", bound=Callable[..., Any])


class PublishKeywords(TypedDict, total=False):
    """Keywords of publishing: the fields of :class:`~sowctl.engine.options.PublishOptions`."""

    batch: int | None
    batch_bytes: int
    linger: Interval | None
    on_error: OnError
    max_errors: int | None
    dry_run: bool
    expiration: Interval | None
    sow_key: str | None
    client: str | None
    sequence: int | None
    timestamp: datetime | str | None
    timestamp_field: str | None
    allow_null_key: bool
    allow_volatile: bool
    delta: bool
    delta_null: DeltaNull
    update_only: bool


class QueryKeywords(TypedDict, total=False):
    """Keywords of a query: the fields of :class:`~sowctl.engine.options.QueryOptions` besides the filter."""

    order_by: str | None
    top_n: int | None
    skip_n: int | None
    sow_keys: Collection[Key] | None
    at: At | None
    select: str | None
    batch_size: int
    sort_memory: int
    by_time: bool
    index_from: int | None
    projection: str | None
    grouping: str | None
    after_key: Key | None
    jobs: int | None
    counted: bool
    fresh: bool
    shown: Collection[str]
    unknown: Literal["ignore", "note", "error"]


class DiffKeywords(TypedDict, total=False):
    """Keywords of a comparison: the fields of :class:`~sowctl.engine.options.DiffOptions` besides the filter."""

    keys: Collection[Key] | None
    fields: Collection[str]
    ignored: Collection[str]
    on: Collection[str]
    loose: bool
    stamps: bool
    records: bool


class SubscribeKeywords(TypedDict, total=False):
    """Keywords of subscribing: the fields of :class:`~sowctl.engine.options.SubscribeOptions` besides the filter."""

    order_by: str | None
    top_n: int | None
    skip_n: int | None
    sow_keys: Collection[Key] | None
    select: str | None
    sow: bool
    batch_size: int
    query_id: str | None
    until_now: bool
    lasting: Interval | None
    most: int | None
    progress_every: Interval | None
    oof: bool
    delta: bool
    no_empties: bool
    send_keys: bool
    conflation: str | None
    conflation_key: str | None
    projection: str | None
    grouping: str | None
    bookmark: datetime | str | None
    bookmark_not_found: str | None
    rate: str | None
    rate_max_gap: Interval | None
    events: bool


class ReplayKeywords(TypedDict, total=False):
    """Keywords of a rebuild: the fields of :class:`~sowctl.engine.options.ReplayOptions`."""

    until_txid: int | None
    until_time: At | None
    into: str | os.PathLike[str] | None
    journal: str | os.PathLike[str] | None
    verify: bool
    rebuild: bool
    force: bool
    dry_run: bool
    rekey: bool


def add_signature(keywords: type, options: type[Struct]) -> Callable[[Function], Function]:
    """Give a method that takes these ``keywords`` a signature with each of them, and the defaults of ``options``."""

    def described(function: Function) -> Function:
        own = signature(function)
        fixed = [one for one in own.parameters.values() if one.kind is not Parameter.VAR_KEYWORD]
        defaults = dict(zip(options.__struct_fields__, options.__struct_defaults__, strict=True))
        named = [
            Parameter(
                name,
                Parameter.KEYWORD_ONLY,
                default=Parameter.empty if defaults[name] is NODEFAULT else defaults[name],
                annotation=getattr(kind, "__forward_arg__", kind),
            )
            for name, kind in keywords.__annotations__.items()
        ]
        function.__signature__ = Signature([*fixed, *named], return_annotation=own.return_annotation)  # type: ignore[attr-defined]
        return function

    return described


_MIN_VALUES = {"batch": 1, "batch_bytes": 1, "batch_size": 1, "jobs": 1, "sort_memory": 1, "most": 1}
"""The least that a whole number may be, where 0 means nothing."""
_MAX_VALUES = {"sequence": MAX_U64, "until_txid": MAX_U64}
"""The most that a whole number may be, where it is no count."""
_CHOICES: dict[str, tuple[str, ...]] = {
    "OnError": get_args(OnError),
    "DeltaNull": get_args(DeltaNull),
    "Literal['ignore', 'note', 'error']": ("ignore", "note", "error"),
}
_KEYWORD_ALIASES = {
    "limit": "top_n",
    "offset": "skip_n",
    "sow_key": "sow_keys",
    "key": "sow_keys",
    "where": "filter",
    "order": "order_by",
    "sort": "order_by",
    "columns": "select",
    "strict": "unknown='error'",
    "only": "fields",
    "ignore": "ignored",
    "timeout": "lasting",
}
"""What options of the command line, or of other libraries, are called, and the keyword that has their meaning."""


def check_keywords(verb: str, kind: type, keywords: Mapping[str, Any]) -> dict[str, Any]:
    """The keywords of a method ``verb``, which ``kind`` names; what is None stays where it may be.

    Raises TypeError for one that there is not, with the name that was meant, and for a value of a wrong type, and
    UsageError ``SOW-CLI-006`` for a number out of its bounds and for a word that is none of the choices.
    """
    found: dict[str, Any] = {}
    for name, value in keywords.items():
        if name not in kind.__annotations__:
            raise TypeError(f"{verb}() has no keyword {name!r}{_suggest_keyword(name, kind)}")
        # As it is written in the class: "int | None".
        written = getattr(kind.__annotations__[name], "__forward_arg__", "").replace('"', "'")
        wanted = written.removesuffix(" | None")
        if value is None and wanted != written:
            found[name] = None
        elif wanted == "int":
            found[name] = require_count(name, value, _MIN_VALUES.get(name, 0), _MAX_VALUES.get(name, MAX_COUNT))
        elif wanted == "bool":
            if type(value).__name__ not in ("bool", "bool_"):
                raise TypeError(f"{name} must be True or False, not {type(value).__name__}")
            found[name] = bool(value)
        elif wanted == "str" or wanted in _CHOICES:
            if not isinstance(value, str):
                raise TypeError(f"{name} must be a str, not {type(value).__name__}")
            if wanted in _CHOICES and value not in _CHOICES[wanted]:
                raise UsageError("SOW-CLI-006", f"{name} must be one of {', '.join(_CHOICES[wanted])}, not {value!r}")
            found[name] = value
        else:
            found[name] = value
    return found


def _suggest_keyword(name: str, kind: type) -> str:
    from sowctl.config.suggestions import find_nearest

    known = [*kind.__annotations__, "filter"] if kind is not PublishKeywords else [*kind.__annotations__]
    meant = _KEYWORD_ALIASES.get(name, "")
    if meant.partition("=")[0] in known:
        return f"; did you mean {meant}?"
    near = find_nearest(name, known)
    return f"; did you mean {near}?" if near else ""


def build_publish_changes(keywords: PublishKeywords) -> dict[str, Any]:
    """The fields of PublishOptions that were given. Raises as :func:`check_keywords`."""
    found = check_keywords("publish", PublishKeywords, keywords)
    for name in ("linger", "expiration"):
        if name in found:
            found[name] = convert_interval(name, found[name])
    if "timestamp" in found:
        found["timestamp"] = format_time_text("timestamp", found["timestamp"])
    return found


def build_query_options(instance: Instance, filter: str | None, keywords: QueryKeywords) -> QueryOptions:
    """Build the options of a query. Raises TypeError, UsageError, and MissingError for an entry that is not there."""
    found = check_keywords("query", QueryKeywords, keywords)
    if found.get("sow_keys") is not None:
        found["sow_keys"] = format_keys("sow_keys", found["sow_keys"], "query(sow_keys=[key])")
    if found.get("after_key") is not None:
        found["after_key"] = str(found["after_key"])
    if "at" in found:
        found["at"] = parse_instant(instance, found["at"])
    if "shown" in found:
        found["shown"] = tuple(found["shown"])
    return QueryOptions(filter=require_text("filter", filter), **found)


def build_diff_options(filter: str | None, keywords: DiffKeywords) -> DiffOptions:
    """Build the options of a comparison. Raises TypeError."""
    found = check_keywords("diff", DiffKeywords, keywords)
    if found.get("keys") is not None:
        found["keys"] = format_keys("keys", found["keys"], "diff(keys=[key])")
    for name in ("fields", "ignored", "on"):
        if name in found:
            found[name] = format_keys(name, found[name], f"diff({name}=[path])")
    return DiffOptions(filter=require_text("filter", filter), **found)


def build_subscribe_options(filter: str | None, keywords: SubscribeKeywords) -> SubscribeOptions:
    """Build the options of a subscription. Raises TypeError and UsageError."""
    found = check_keywords("subscribe", SubscribeKeywords, keywords)
    if found.get("sow_keys") is not None:
        found["sow_keys"] = format_keys("sow_keys", found["sow_keys"], "subscribe(sow_keys=[key])")
    for name in ("lasting", "progress_every", "rate_max_gap"):
        if name in found:
            found[name] = convert_interval(name, found[name])
    if "bookmark" in found:
        found["bookmark"] = format_time_text("bookmark", found["bookmark"])
    return SubscribeOptions(filter=require_text("filter", filter), **found)


def build_replay_options(instance: Instance, keywords: ReplayKeywords) -> ReplayOptions:
    """Build the options of a rebuild. Raises TypeError, UsageError, and MissingError for an entry that is not there."""
    found = check_keywords("replay", ReplayKeywords, keywords)
    if "until_time" in found:
        found["until_time"] = parse_instant(instance, found["until_time"])
    for name in ("into", "journal"):
        if found.get(name) is not None:
            found[name] = os.fspath(found[name])
    return ReplayOptions(**found)
