"""Which tests show what this toolkit promises of its reliability, target by target; every name is looked up.

Figures are of the short form in the gate and, behind a slash, of the long form (``--deep``). Targets that no test of
this suite shows are listed with the reason instead of a name.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

HERE = Path(__file__).parent
TARGETS: dict[str, tuple[str, tuple[str, ...]]] = {
    "R1": (
        "SIGKILL, 120 / 10,000 rounds of publishers, 5 / 200 of each command of upkeep: nothing acknowledged is lost",
        (
            "crash/test_sigkill.py::test_killed_at_random_moments",
            "crash/test_upkeep_sigkill.py::test_killed_at_random_moments",
            "engine/maintenance/backup/test_sigkill.py::test_kills_at_random_moments",
        ),
    ),
    "R3": (
        "crash states, 40 of each of 29 workloads, 500 of a journal / all, 500,000 of a journal: nothing acknowledged "
        "lost",
        (
            "crash/test_crash_states.py::test_nothing_acknowledged_is_lost",
            "crash/test_upkeep.py::test_the_power_goes",
            "engine/maintenance/backup/test_power.py::test_the_power_goes_in_a_backup",
            "engine/maintenance/backup/test_power.py::test_the_power_goes_in_a_restore",
            "journal/test_crash_states.py::test_every_state_holds_what_was_acknowledged",
            "journal/test_crash_states.py::test_every_state_of_workloads_that_a_seed_decides",
        ),
    ),
    "R4": (
        "without syncs the same judgement finds losses",
        (
            "crash/test_crash_states.py::test_without_syncs_losses_are_seen",
            "crash/test_crash_states.py::test_without_one_kind_of_sync_losses_are_seen",
            "journal/test_crash_states.py::test_without_syncs_the_loss_is_seen",
        ),
    ),
    "R5": (
        "flipped bits of a journal, one in every third byte of 8 KiB / every bit of 64 KiB: reported",
        ("journal/test_damage.py::test_every_byte_flipped_is_reported",),
    ),
    "R6": (
        "flipped bits of a store, 300 / 20,000: none silent",
        ("store/test_damage.py::test_no_flipped_bit_is_silent",),
    ),
    "R7": (
        "a journal cut at any byte: the exact prefix",
        (
            "journal/test_damage.py::test_a_cut_at_every_byte_leaves_the_exact_prefix",
            "crash/test_truncations.py::test_a_cut_journal_is_damage_wherever_anything_proves_it",
        ),
    ),
    "R8": (
        "the n-th call fails, once or for ever, some of them / every one",
        (
            "crash/test_fail_at_n.py::test_the_nth_call_fails",
            "crash/test_fail_at_n.py::test_the_nth_write_is_short",
            "crash/test_upkeep.py::test_the_nth_call_fails",
            "engine/maintenance/backup/test_faults.py::test_a_backup_with_a_failing_call_at_every_place",
            "engine/maintenance/backup/test_faults.py::test_a_restore_with_a_failing_call_at_every_place",
        ),
    ),
    "R9": (
        "a fault in what recovers from a fault",
        (
            "crash/test_fail_at_n.py::test_recovery_fails_too",
            "crash/test_killed_at_n.py::test_killed_again_and_again_until_it_completes",
        ),
    ),
    "R10": (
        "a store that was rebuilt is the one that grew",
        (
            "property/test_rebuild_equals_live.py::test_rebuilt_is_live_and_both_are_the_model",
            "property/test_histories.py::test_any_history",
        ),
    ),
    "R11": (
        "a machine of publishing, deleting, expiring, reopening and rebuilding against a model",
        ("property/test_model.py::test_live_rebuilt_and_model_agree",),
    ),
    "R12": (
        "writers, readers and who replaces stores at once, 2 s / 10 min; one call at a time in orders of a seed",
        (
            "crash/test_concurrency.py::test_four_writers_and_readers",
            "crash/test_concurrency.py::test_stores_replaced_under_readers_and_writers",
            "crash/test_retention_together.py::test_files_go_under_everybody",
            "interleaving/test_random.py::test_orders_that_a_seed_decides",
            "interleaving/test_pairs.py::test_two_preemptions",
        ),
    ),
    "R13": (
        "mutated texts and files: no error that is not declared",
        (
            "expressions/test_fuzz.py::test_mutated_texts",
            "config/test_mutations.py::test_checking_never_fails",
            "config/test_validate.py::test_mutated_files_are_judged_and_never_crash",
            "journal/test_damage.py::test_any_mutation_ends_in_a_reported_error_or_the_truth",
        ),
    ),
    "R14": (
        "a malformed file has an exit status of its own, never 70, never a signal",
        (
            "crash/test_malformed.py::test_stores",
            "crash/test_malformed.py::test_journals",
            "crash/test_malformed.py::test_configurations",
            "store/test_damage.py::test_no_cut_end_ends_a_process",
        ),
    ),
    "R16": (
        "hostile configurations and texts for terminals",
        (
            "config/test_hostile.py::test_document_types_are_refused",
            "config/test_hostile.py::test_nothing_outside_is_opened",
            "config/test_hostile.py::test_a_pattern_that_runs_away_is_an_error",
            "output/test_formats.py::test_nothing_on_a_terminal_can_steer_it",
        ),
    ),
    "R18": (
        "queues: nothing lost at any kill, twice only behind the end of a lease",
        (
            "crash/test_queues.py::test_killed_at_the_nth_call",
            "crash/test_queues.py::test_four_workers_that_are_killed",
        ),
    ),
    "R19": (
        "bookmarks are never ahead of what was confirmed",
        (
            "crash/test_places.py::test_what_the_store_takes_as_done_was_printed",
            "crash/test_places.py::test_what_a_file_takes_as_done_was_acknowledged",
        ),
    ),
    "R20": (
        "files of every released version of a format are read for ever",
        tuple(
            f"{room}::"
            for room in (
                "journal/test_golden.py",
                "store/queue/test_golden.py",
                "engine/maintenance/backup/test_golden.py",
            )
        ),
    ),
}
WITHOUT = {
    "R2": "a cut of the power needs a file system that is mounted for it: its states are those of R3",
    "R15": "memory is measured by tests/bench/memory.py, outside of the gate",
    "R17": "coverage of the language and of the formats is measured by .ci/run, at least 97 % of their branches",
    "R21": "seeds are new in every run and printed; the suite is not repeated by itself",
}


def test_every_target_has_its_tests_or_a_reason() -> None:
    assert sorted(TARGETS.keys() | WITHOUT.keys(), key=lambda name: int(name[1:])) == [f"R{n}" for n in range(1, 22)]
    assert not TARGETS.keys() & WITHOUT.keys()


@pytest.mark.parametrize("target", TARGETS)
def test_the_tests_are_there(target: str) -> None:
    for name in TARGETS[target][1]:
        file, _, test = name.partition("::")
        assert re.search(rf"^def {test or 'test_'}", (HERE / file).read_text(), re.MULTILINE), name
