"""Advice on the storage of a topic: slabs, the size hint, and redundant indexes.

A configuration does not contain the size of messages, the number of processors or the size of the memory: these rules
use the values in a comment of the file (:mod:`sowctl.config.rules.facts`) and report nothing without them.
"""

from __future__ import annotations

from collections.abc import Iterator

from sowctl.config import expression_texts
from sowctl.config.document import ElementNode
from sowctl.config.rules.measures import DEFAULT_SLAB_BYTES, format_size_text, is_size_within, read_count, read_size
from sowctl.config.rules.rule import Problem
from sowctl.config.rules.survey import Survey

SLAB_OVERHEAD_BYTES = 64
"""Bytes of a slab that messages cannot use."""
BYTES_PER_KEY = 16
"""Minimum size of an index entry for each expected key: its digest."""
DEFAULT_MEMORY_BYTES = 1 << 40
"""Assumed memory, 1 TB, if the file does not state its size."""
LARGE_START_BYTES = 1 << 30
LARGE_START_BYTES_PER_CORE = 128 << 20


def _read_slab_size(node: ElementNode) -> int | None:
    """The slab size of a topic, including the default; None if it is unknown."""
    # The retired sizes determine the slab then (behaviour 11.31); these rules check only SlabSize.
    if node.find("RecordSize", "IncrementSize") is not None and node.find("SlabSize") is None:
        return None
    slab = node.find("SlabSize")
    return DEFAULT_SLAB_BYTES if slab is None else read_size(slab)


def message_too_large(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: the largest message that the author expects does not fit into a slab of the topic.

    Why: a message is stored in one slab, of which 64 bytes are overhead; a larger message cannot be stored.
    Example: ``<!-- sowctl: assume largest-message=6MB -->`` in a file with a topic of the default slab size, 5MB.
    Instead: set SlabSize to four times the largest message, or more.
    """
    slab = _read_slab_size(node)
    if slab is None:
        return
    largest, room = survey.facts.largest_message, slab - SLAB_OVERHEAD_BYTES
    where = node.find("SlabSize") or node
    if room < 1:
        message = (
            f"no message fits into SlabSize {format_size_text(slab)}: {SLAB_OVERHEAD_BYTES} bytes of it are overhead"
        )
        yield Problem(where, message, "remove SlabSize; the default, 5MB, suits most messages")
    elif largest is not None and largest > room:
        message = f"largest expected message ({format_size_text(largest)}) exceeds SlabSize - 64 ({room} bytes)"
        yield Problem(
            where,
            message,
            f"write <SlabSize>{_format_fitting_slab(largest)}</SlabSize>, four times the message or more",
        )


def _format_fitting_slab(largest: int) -> str:
    return f"{-(-4 * largest >> 20)}MB"


def slab_without_need(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: SlabSize is set although the default, 5MB, would suffice.

    Why: the default suits messages up to about 1MB; another size must be maintained by hand.
    Example: ``<SlabSize>1MB</SlabSize>``.
    Instead: remove SlabSize, unless measurements show that it helps. Larger sizes are reported only if a comment such
    as ``<!-- sowctl: assume largest-message=10KB -->`` shows that the default suffices.
    """
    slab = node.find("SlabSize")
    number = read_size(slab)
    if slab is None or number is None or number <= SLAB_OVERHEAD_BYTES:
        return
    largest = survey.facts.largest_message
    # 5MB counts as the default, whether a kilobyte has 1000 or 1024 bytes.
    enough = (
        number <= DEFAULT_SLAB_BYTES or is_size_within(slab, "5MB", "5MB")
        if largest is None
        else 4 * largest <= DEFAULT_SLAB_BYTES
    )
    if enough:
        message = f"SlabSize {slab.text} is unnecessary; the default, 5MB, suffices"
        yield Problem(slab, message, "remove SlabSize, unless measurements show that it helps")


def slab_too_small(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: a slab holds fewer than four of the largest messages that the author expects.

    Why: the space at the end of a slab is wasted, and the file grows in steps of hardly more than one message.
    Example: ``<!-- sowctl: assume largest-message=2MB -->`` in a file with a topic of the default slab size, 5MB.
    Instead: set SlabSize to four times the largest message, or more.
    """
    slab, largest = _read_slab_size(node), survey.facts.largest_message
    if slab is not None and largest is not None and slab - SLAB_OVERHEAD_BYTES >= largest and slab < 4 * largest:
        default = "" if node.find("SlabSize") else " (default)"
        message = (
            f"SlabSize {format_size_text(slab)}{default} is below 4 x the largest message ({format_size_text(largest)})"
        )
        yield Problem(
            node.find("SlabSize") or node, message, f"write <SlabSize>{_format_fitting_slab(largest)}</SlabSize>"
        )


def slabs_below_cores(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: SlabSize is so large that the topic will have fewer slabs than there are processors.

    Why: a query searches slabs in parallel; with few slabs, processors are idle.
    Example: ``<SlabSize>1GB</SlabSize>`` with ``<!-- sowctl: assume cores=16 memory=8GB -->``: memory has room for
    eight slabs.
    Instead: lower SlabSize. The number of slabs is estimated from the memory, and from ExpectedKeyCountHint times the
    largest message if the comment states both.
    """
    slab, facts = node.find("SlabSize"), survey.facts
    number = read_size(slab)
    if slab is None or not number or facts.cores is None:
        return
    expected = read_count(node.find("ExpectedKeyCountHint"))
    # The memory or the expected records limit the number of slabs; without either it is unknown.
    limits = [] if facts.memory is None else [facts.memory]
    if expected is not None and facts.largest_message is not None:
        limits.append(expected * facts.largest_message)
    slabs = -(-min(limits) // number) if limits else facts.cores
    if slabs < facts.cores:
        message = (
            f"SlabSize {slab.text} leaves at most {slabs} slabs for {facts.cores} cores; queries cannot use them all"
        )
        yield Problem(slab, message, f"write <SlabSize>{_format_share(min(limits), facts.cores)}</SlabSize> or less")


def _format_share(limit: int, cores: int) -> str:
    share = limit // cores
    return f"{share >> 20}MB" if share >= 1 << 20 else f"{max(share >> 10, 1)}KB"


def large_at_start(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: SlabSize and InitialSlabCount make a file that is large before it holds a record.

    Why: each processor that writes reserves slabs of its own, so a file starts at about the number of processors times
    SlabSize times InitialSlabCount.
    Example: ``<SlabSize>100MB</SlabSize>`` with ``<InitialSlabCount>10</InitialSlabCount>``: 1GB for each processor.
    Instead: lower one of the two, unless there is enough space. Reported from 1GB, or from 128MB for each processor if
    no comment such as ``<!-- sowctl: assume cores=16 -->`` states their number.
    """
    slab, slabs = _read_slab_size(node), node.find("InitialSlabCount")
    where = node.find("SlabSize") or slabs
    number = 1 if slabs is None else read_count(slabs)
    if where is None or slab is None or number is None:
        return
    cores = survey.facts.cores
    start = slab * number * (cores or 1)
    if start >= (LARGE_START_BYTES_PER_CORE if cores is None else LARGE_START_BYTES):
        product = f"{format_size_text(slab)} x {number} = {format_size_text(start)}"
        many = (
            f"{format_size_text(slab * number)} for each core that writes"
            if cores is None
            else f"{cores} cores x {product}"
        )
        yield Problem(
            where, f"file starts at about {many}", "reduce SlabSize or InitialSlabCount if the size is too large"
        )


def key_count_rounded(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: ExpectedKeyCountHint is not a power of two.

    Why: it is rounded up to a power of two; the number in the file is not the one in use.
    Example: ``<ExpectedKeyCountHint>1M</ExpectedKeyCountHint>`` counts as 1048576.
    Instead: no change is needed; write the power of two to make the value explicit.
    """
    hint = node.find("ExpectedKeyCountHint")
    number = read_count(hint)
    # A power of two has one bit set, which this clears.
    if hint is not None and number and number & (number - 1):
        rounded = 1 << number.bit_length()
        message = f"ExpectedKeyCountHint {hint.text} will be rounded up to {rounded}"
        yield Problem(hint, message, f"write {rounded} to make the value explicit")


def key_count_above_memory(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: ExpectedKeyCountHint requires an index that does not fit into memory.

    Why: the index is allocated at start with at least 16 bytes for each expected key, whether the keys exist or not.
    Example: ``<ExpectedKeyCountHint>1000M</ExpectedKeyCountHint>`` with ``<!-- sowctl: assume memory=8GB -->``.
    Instead: write the number of records that you expect. Without such a comment, the limit is a terabyte.
    """
    hint = node.find("ExpectedKeyCountHint")
    number = read_count(hint)
    if hint is None or not number:
        return
    memory = survey.facts.memory
    # The number of keys is rounded up to a power of two.
    needed = BYTES_PER_KEY << (number - 1).bit_length()
    if needed > (memory or DEFAULT_MEMORY_BYTES):
        there = (
            f"({format_size_text(memory)}) allows"
            if memory
            else f"allows ({format_size_text(DEFAULT_MEMORY_BYTES)} assumed)"
        )
        message = (
            f"ExpectedKeyCountHint {hint.text} needs at least {format_size_text(needed)}, more than memory {there}"
        )
        yield Problem(hint, message, "write the number of records that you expect")


def index_repeats_key(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: a HashIndex over the Key fields of a topic, or over the Grouping fields of a view.

    Why: lookups by these fields are indexed already; a second index costs memory and time without a benefit.
    Example: ``<Key>/id</Key>`` and ``<HashIndex><Key>/id</Key></HashIndex>`` in one Topic.
    Instead: remove the HashIndex.
    """
    indexes = list(node.find_all("HashIndex"))
    if not indexes:
        return
    view = survey.find_entry(node).kind == "View"
    known = _find_grouped_fields(node) if view else {key.text for key in node.find_all("Key")}
    for index in indexes:
        # Equal sets, in any order: the values of the same fields find the same records.
        if known and {key.text for key in index.find_all("Key")} == known:
            what = "Grouping" if view else "Key"
            yield Problem(
                index,
                f"HashIndex repeats the {what} fields ({', '.join(sorted(known))})",
                "remove it: these fields are always indexed",
            )


def _find_grouped_fields(view: ElementNode) -> set[str] | None:
    """The output fields that hold the grouping fields of a view; None if one is not projected unchanged."""
    outputs: dict[str, str] = {}
    for section in view.find_all("Projection"):
        for field in section.find_all("Field"):
            definition = expression_texts.parse_definition(field, projection=True)
            if definition is not None:
                source = str(definition.expression)
                outputs.setdefault(source, source if definition.destination is None else str(definition.destination))
    names = [
        str(name)
        for section in view.find_all("Grouping")
        for f in section.find_all("Field")
        for name in expression_texts.parse_grouping_fields(f)
    ]
    return {outputs[name] for name in names} if names and all(name in outputs for name in names) else None
