"""Benchmarks, run by hand: ``python -m tests.bench.run [NAME ...] [--small] [--big] [--dir DIR] [--rounds N]``.

pytest does not collect them. The names stand in ``run.py``; without one, all run in that order. ``--small`` takes a
tenth of the data, to see that everything works; ``--big`` adds the 10,000,000 entries of ``idle`` and the 5,000,000 of
``spark`` and ``pipeline``. Input and loaded stores are kept in DIR and used again (default: a temporary directory that
goes at the end); remove DIR after a change to what publish writes.

Rules that every benchmark keeps: outputs are compared before anything is ranked (an order-independent hash over key and
payload); in a round every item runs once, one after the other, and ratios are taken within a round; medians are printed
with their range, CPU time beside wall time, and what the machine is. Other work on the machine disturbs wall time most:
where wall and CPU ratios disagree, run again on a quiet machine.
"""
