"""A conflated topic as a source: what it shows at an instant, computed from the times of its source's changes.

It shows the messages of its source, their txids, times and keys included; what expires in the source is one change more
and leaves with the next output. So a state depends on the journal and the instant alone, whether or not anything ran at
that time (``behaviour`` 5.3, 11.42 to 11.46).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from itertools import islice
from typing import TYPE_CHECKING

from sowctl.config.derived import ConflatedTopic
from sowctl.config.model import TopicConfig
from sowctl.engine.extensions.functions import functions_of
from sowctl.engine.fold.tempstore import aside
from sowctl.engine.search.matcher import Matcher, environment_of
from sowctl.engine.sources.current import CurrentSource, open_file
from sowctl.engine.topics.derived import as_topic
from sowctl.engine.topics.positions import definition_of
from sowctl.engine.views.conflating import Conflation
from sowctl.engine.views.moment import entry_of
from sowctl.engine.views.outputs import Outputs
from sowctl.engine.views.timeline import Change, Stretch, topic_changes
from sowctl.errors import UsageError
from sowctl.store.builder import build

if TYPE_CHECKING:
    from sowctl.config.model import OtherEntry
    from sowctl.engine.instance import Instance
    from sowctl.engine.sources.source import Source
    from sowctl.engine.views.moment import Moment

READ = 1000


def open_entry(moment: Moment, entry: OtherEntry) -> Source:
    """The conflated topic as of a moment."""
    assert isinstance(entry, ConflatedTopic)
    instance = moment.instance
    assert instance.config is not None
    shown: dict[bytes, tuple[int, bytes]] = {}
    for change in changes(instance, entry, stretch_of(moment)):
        if change.value is None:
            del shown[change.key]
        else:
            shown[change.key] = change.time, change.value
    with ExitStack() as stack:
        then = stack.enter_context(aside(as_topic(instance.config, entry), "conflated"))
        assert then.file is not None
        definition = definition_of(instance.config.name, then)
        outputs = Outputs(instance, entry)
        with build(then.file, definition, seam=instance.seam, now=moment.now) as builder:
            keys = sorted(shown)
            for start in range(0, len(keys), READ):
                some = keys[start : start + READ]
                builder.append(some, [outputs.of(Change(shown[key][0], key, shown[key][1])) for key in some])
            builder.flush()
            builder.put_in_place(wait=instance.lock_wait)
        base = stack.enter_context(open_file(instance, then.file))
        return CurrentSource(stack.pop_all(), base.snapshot, None, then, moment.now)


def stretch_of(moment: Moment) -> Stretch:
    """All of the log that a moment holds; an instant in the future is the present."""
    at = moment.now if moment.at is None else min(moment.at, moment.now)
    return Stretch(0, moment.until, at)


def changes(instance: Instance, entry: ConflatedTopic, stretch: Stretch) -> Iterator[Change]:
    """When a conflated topic showed what, from its beginning: the messages of its source, as these have them.

    Raises what reading the journal raises, UsageError ``SOW-VIW-002`` for a source that no journal records.
    """
    found = matching(instance, entry, source_changes(instance, entry, stretch))
    return Conflation(entry.interval_us).over(found, stretch.at)


def source_changes(instance: Instance, entry: ConflatedTopic, stretch: Stretch) -> Iterator[Change]:
    """The changes of a conflated topic's source, from its beginning."""
    source = entry_of(instance, (entry.message_type, entry.underlying))
    if isinstance(source, TopicConfig):
        if not source.journalled:
            raise unrecorded(entry, source.name)
        return topic_changes(instance, source, stretch)
    if isinstance(source, ConflatedTopic):
        return map(Outputs(instance, source).change, changes(instance, source, stretch))
    raise unrecorded(entry, source.name)


def matching(instance: Instance, entry: ConflatedTopic, found: Iterable[Change]) -> Iterator[Change]:
    """Changes as a conflated topic takes them: a message that its filter does not leave is gone (11.46)."""
    if not entry.filter:
        yield from found
        return
    kind = instance.type_of(entry.message_type)
    matcher = Matcher(entry.filter, kind, entry.underlying, environment_of(instance), functions=functions_of(instance))
    remaining = iter(found)
    while some := list(islice(remaining, READ)):
        there = [change for change in some if change.value is not None]
        places = matcher.places([change.key for change in there], [change.value or b"" for change in there])
        left = {id(there[place]) for place in places}
        yield from (change if id(change) in left else change._replace(value=None) for change in some)


def unrecorded(entry: ConflatedTopic, source: str) -> UsageError:
    """The error for a conflated topic whose state nothing tells."""
    return UsageError(
        "SOW-VIW-002",
        f"what {entry.name!r} shows cannot be computed: no journal records its source {source!r}",
        hint=f"sowctl conflate {entry.name} keeps a state from now on",
        topic=entry.name,
    )
