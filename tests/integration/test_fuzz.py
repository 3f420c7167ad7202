"""Random frames and formulas: a ranking with finite scores, or an error that says something, and nothing else.

More of them, and other inputs, are tried by tests/properties/test_fuzzing.py and benchmarks/fuzz.py.
"""

from __future__ import annotations

import pytest

from ..support import from_benchmarks

targets, watch = from_benchmarks("fuzzing.targets"), from_benchmarks("fuzzing.watch")


@pytest.mark.parametrize("block", range(4))
def test_random_frames_are_ranked_or_refused(block):
    watcher = watch.Watch()
    for seed in range(30 * block, 30 * block + 30):
        targets.run_case("frames.odd_frames", seed, watcher)
    assert watcher.outcomes["answered"]
    assert len(watcher.outcomes) > 3
