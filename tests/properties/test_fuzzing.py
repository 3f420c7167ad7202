"""A minute of the generated inputs of benchmarks/fuzz.py: the same cases in every run, without a finding."""

import os
import time
import warnings

import pytest

from ..support import from_benchmarks

targets, watch = from_benchmarks("fuzzing.targets"), from_benchmarks("fuzzing.watch")
CASES = int(os.environ.get("DMLRANK_CASES", "5"))


@pytest.mark.parametrize("name", targets.TARGETS)
def test_generated_inputs_are_answered_rightly_or_refused(name):
    watcher = watch.Watch()
    for seed in range(CASES):
        targets.run_case(name, seed, watcher)
    assert watcher.inputs


@pytest.mark.parametrize(("name", "kinds"), [("frames.odd_frames", 4), ("logs.mutated", 2)])
def test_random_inputs_of_many_kinds_are_read_or_refused(name, kinds):
    watcher = watch.Watch()
    for seed in range(120):
        targets.run_case(name, seed, watcher)
    assert watcher.outcomes["answered"]
    assert len(watcher.outcomes) >= kinds


def test_a_wrong_answer_is_found():
    """The watch itself: what it must not let pass."""
    watcher = watch.Watch()
    with pytest.raises(watch.Finding, match="wrong answer"):
        watcher.near("one", 1.0, 1.1)
    with pytest.raises(watch.Finding, match="foreign exception"):
        watcher.ask("divide", lambda: 1 / 0)
    with pytest.raises(watch.Finding, match="foreign warning"):
        watcher.ask("warn", warnings.warn, "of another library")
    with pytest.raises(watch.Finding, match="printed"), watch.silence("print"):
        os.write(1, b"a line of native code")
    with pytest.raises(watch.Finding, match="hang"), watch.time_limit(0.05):
        time.sleep(30)
