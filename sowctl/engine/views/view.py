"""A view as a source: its messages as of a moment, in a store like that of a topic."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from sowctl.config.derived import View
from sowctl.engine.fold.tempstore import aside
from sowctl.engine.sources.current import CurrentSource, open_file
from sowctl.engine.topics.derived import as_topic
from sowctl.engine.topics.positions import definition_of
from sowctl.engine.views.computing import computed
from sowctl.engine.views.definition import Program, query_of
from sowctl.store.builder import build

if TYPE_CHECKING:
    from sowctl.config.model import OtherEntry
    from sowctl.engine.sources.source import Source
    from sowctl.engine.views.moment import Moment


def open_entry(moment: Moment, entry: OtherEntry) -> Source:
    """The view as of a moment."""
    assert isinstance(entry, View)
    instance = moment.instance
    assert instance.config is not None
    program = Program(instance, query_of(instance, entry))
    with ExitStack() as stack:
        then = stack.enter_context(aside(as_topic(instance.config, entry), "view"))
        assert then.file is not None
        definition = definition_of(instance.config.name, then)
        with build(then.file, definition, seam=instance.seam, now=moment.now) as builder:
            for keys, values in computed(moment, program):
                builder.append(keys, values)
            builder.flush()
            builder.put_in_place(wait=instance.lock_wait)
        base = stack.enter_context(open_file(instance, then.file))
        return CurrentSource(stack.pop_all(), base.snapshot, None, then, moment.now)
