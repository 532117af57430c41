"""view: the views of a configuration, the content of their caches, and their lag (sow-view(5))."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from sowctl.config.derived_entries import View
from sowctl.engine.topics.targets import resolve_targets
from sowctl.engine.views.cache import find_cache_path
from sowctl.engine.views.cache_build import count_column_bytes
from sowctl.engine.views.definition import build_query
from sowctl.engine.views.instant import ViewInstant, run_at_instant
from sowctl.engine.views.openers import open_derived_entry
from sowctl.engine.views.view import open_computed, plan_refresh, refresh_cache
from sowctl.errors import UsageError
from sowctl.store.limits import STORE_LIMITS

if TYPE_CHECKING:
    from sowctl.engine.instance import Instance
    from sowctl.engine.sources.source import Source


class ViewInfo(Struct, frozen=True):
    """A view and its cache. ``next``: what the next reader does (use, catch up, compute), and ``why``.

    ``lag``: number of source records changed since the cache was ``refreshed`` (microseconds UTC), None if unknown;
    ``records``: number of its messages; ``bytes``: size of the cache; ``column_bytes``: size of its column files, None
    without any. Costs are in seconds of processor time: of a full computation, and of the last refresh, with its
    numbers of changed records and of recomputed groups.
    """

    view: str
    message_type: str
    sources: tuple[str, ...]
    next: str
    why: str
    lag: int | None
    records: int
    bytes: int
    column_bytes: int | None
    path: str | None
    made: int | None
    refreshed: int | None
    full_seconds: float | None
    change_seconds: float | None
    changes: int
    groups: int


class ViewDefinition(Struct, frozen=True):
    """The definition of a view in the configuration."""

    joins: tuple[str, ...]
    filter: str | None
    projection: tuple[str, ...]
    grouping: tuple[str, ...]
    key_domain: str
    nulls_match: bool
    hash_indexes: tuple[tuple[str, ...], ...]


class RefreshReport(Struct, frozen=True):
    """The result of refreshing a view: ``way`` is used, caught up, computed, or none for a view without a cache."""

    view: str
    message_type: str
    way: str
    changed: int
    records: int


class ViewCheck(Struct, frozen=True):
    """A view compared with its sources: messages of both, and those that are only in one or differ."""

    view: str
    message_type: str
    records: int
    computed: int
    missing: int
    surplus: int
    different: int

    @property
    def is_sound(self) -> bool:
        """True if the cache and the sources agree."""
        return not (self.missing or self.surplus or self.different)


def select_views(instance: Instance, names: Sequence[str] | None, message_type: str | None = None) -> list[View]:
    """Return the views with these names, of a message type if given, or all.

    Raises UsageError ``SOW-VIW-010`` for an entry that is not a view, and as ``resolve_targets``.
    """
    if not names:
        entries = instance.config.sow if instance.config is not None else ()
        return [entry for entry in entries if isinstance(entry, View)]
    found = []
    for name in names:
        (target,) = resolve_targets(instance, name, message_type, literal=True, derived=True)
        entry = target.topic.derived if target.topic is not None else None
        if not isinstance(entry, View):
            raise UsageError("SOW-VIW-010", f"{name!r} is not a view", hint="sowctl view list lists the views")
        found.append(entry)
    return found


def build_view_info(instance: Instance, view: View) -> ViewInfo:
    """Return the state of a view's cache. Raises what opening the sources raises."""
    found = plan_refresh(instance, view)
    state, path = found.state, find_cache_path(instance, view)
    return ViewInfo(
        view.name,
        view.message_type,
        tuple(f"[{kind}].[{name}]" for kind, name in build_query(instance, view).qualifiers),
        found.way,
        found.why,
        found.changed,
        found.messages,
        found.size,
        count_column_bytes(path, state.columns) if state is not None and path is not None and state.columns else None,
        str(path) if path is not None else None,
        state.made if state is not None else None,
        state.refreshed if state is not None else None,
        state.full if state is not None else None,
        state.change if state is not None and state.changed else None,
        state.changed if state is not None else 0,
        state.groups if state is not None else 0,
    )


def build_view_definition(view: View) -> ViewDefinition:
    """Return the definition of a view."""
    return ViewDefinition(
        view.joins,
        view.filter,
        view.projection,
        view.grouping,
        view.key_domain,
        view.join_null_equivalency,
        tuple(tuple(map(str, index)) for index in view.hash_indexes),
    )


def refresh_view(instance: Instance, view: View, *, fresh: bool = False) -> RefreshReport:
    """Refresh the cache of a view; ``fresh``: recompute it and those of the views that it reads.

    Raises StorageError, LockedError or RefusedError if it cannot be written, and what reading raises.
    """

    def work(moment: ViewInstant) -> tuple[str, int]:
        done = refresh_cache(moment, view)
        return ("none", 0) if done is None else (done.way, done.changed)

    way, changed = run_at_instant(instance, view, None, open_derived_entry, work, fresh=fresh)
    path = find_cache_path(instance, view)
    return RefreshReport(view.name, view.message_type, way, changed, _count_records(instance, path))


def _count_records(instance: Instance, path: Path | None) -> int:
    from sowctl.engine.topics.positions import read_meta

    return 0 if path is None else read_meta(path, instance).records


def check_view(instance: Instance, view: View) -> ViewCheck:
    """Compare the messages of a view's cache with those computed from its sources at the same instant."""

    def work(moment: ViewInstant) -> ViewCheck:
        with closing(open_derived_entry(moment, view)) as shown, closing(open_computed(moment, view)) as computed:
            return _compare_messages(view, shown, computed)

    return run_at_instant(instance, view, None, open_derived_entry, work)


def _compare_messages(view: View, shown: Source, computed: Source) -> ViewCheck:
    """Compare both in key order."""
    left, right = _read_pairs(shown), _read_pairs(computed)
    records = made = missing = surplus = different = 0
    one, other = next(left, None), next(right, None)
    while one is not None or other is not None:
        if other is None or (one is not None and one[0] < other[0]):
            records, surplus = records + 1, surplus + 1
            one = next(left, None)
        elif one is None or other[0] < one[0]:
            made, missing = made + 1, missing + 1
            other = next(right, None)
        else:
            records, made, different = records + 1, made + 1, different + (one[1] != other[1])
            one, other = next(left, None), next(right, None)
    return ViewCheck(view.name, view.message_type, records, made, missing, surplus, different)


def _read_pairs(source: Source) -> Iterator[tuple[bytes, bytes]]:
    for keys, values in source.read_batches(STORE_LIMITS.read_batch_records):
        yield from zip(keys, values, strict=True)
