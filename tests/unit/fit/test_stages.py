"""What a stage keeps is used again exactly where its key is the same; that an update is a fresh fit: test_update."""

import warnings
from typing import NamedTuple

import numpy as np
import pytest

from dmlrank._utils import tasks_and_threads
from dmlrank.fit.stages import Draw, FirstStages, RepetitionSeed
from dmlrank.options import Options

ARRAY, OTHER = np.zeros(2), np.zeros(2)


class Record(NamedTuple):
    array: np.ndarray
    number: int


SAME = [((1, "cv", None), (1, "cv", None)), (({"num_leaves": 4}, Record(ARRAY, 1)), ({"num_leaves": 4}, (ARRAY, 1)))]
CHANGED = [
    ((1,), (2,)),
    (("cv",), ("random",)),
    ((None,), (0,)),
    ((ARRAY,), (OTHER,)),
    (({"num_leaves": 4},), ({"num_leaves": 5},)),
    ((Record(ARRAY, 1),), (Record(ARRAY, 2),)),
    ((Record(ARRAY, 1),), (Record(OTHER, 1),)),
    (((1, 2),), ((1,),)),
    ((1,), (1, None)),
]


@pytest.mark.parametrize(("before", "after", "is_same"), [(*k, True) for k in SAME] + [(*k, False) for k in CHANGED])
def test_a_result_is_used_again_where_its_key_is_the_same(before, after, is_same):
    first = FirstStages(None, Options.of({}))
    kept = first.keep("mu 0", before, lambda: [0])
    later = FirstStages(None, Options.of({}), first.kept)
    assert (later.keep("mu 0", after, lambda: [1]) is kept) == is_same
    assert later.keep("mu 1", after, lambda: [2]) == [2]


def test_own_warnings_are_given_again():
    def compute():
        tasks_and_threads.warn("own")
        warnings.warn("of someone else", UserWarning, stacklevel=2)

    def messages(stages):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            stages.keep("mu 0", (), compute)
        return [str(w.message) for w in caught]

    first = FirstStages(None, Options.of({}))
    assert messages(first) == ["of someone else", "own"]
    assert messages(FirstStages(None, Options.of({}), first.kept)) == ["own"]


@pytest.mark.parametrize("repetition", [0, 1, 5])
def test_the_children_of_a_seed_are_those_of_a_spawned_sequence(repetition):
    spawned = np.random.SeedSequence([7, repetition] if repetition else 7).spawn(max(Draw) + 1)
    seed = RepetitionSeed(7, repetition)
    for draw in Draw:
        assert (seed.child(draw).generate_state(4) == spawned[draw].generate_state(4)).all()
