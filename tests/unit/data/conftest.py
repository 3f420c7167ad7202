"""Small frames of votes, and reading them with names that a caller would have."""

import numpy as np
import pandas as pd
import pytest

from dmlrank.data.formula.features import caller_environment
from dmlrank.data.read_votes import preferences_of, take_rows
from dmlrank.options import Options, in_objects


@pytest.fixture(scope="session")
def read():
    def with_names(data, features="1", env=None, outcome="winner", **options):
        """Preference data of a frame with the columns winner, a and b, and of names that the formula may use."""
        environment = caller_environment(env or {}, depth=0)
        formula, options = f"{outcome} ~ {features} | a + b", Options.of(in_objects(options))
        return preferences_of(take_rows(formula, data, environment, options))

    return with_names


@pytest.fixture
def votes():
    """Nine votes on three models in five questions, the questions not in order, two of their rows apart."""
    return pd.DataFrame(
        {
            "question": ["q3", "q1", "q3", "q2", "q1", "q5", "q4", "q4", "q3"],
            "a": ["x", "y", "x", "z", "x", "y", "z", "z", "y"],
            "b": ["y", "z", "y", "x", "y", "x", "y", "y", "z"],
            "winner": ["model_a", "tie", "model_b", "model_a", "model_b", "tie", "model_a", "model_a", "model_b"],
            "length": [3.0, 1.0, 3.0, 2.0, 1.0, 5.0, 4.0, 4.0, 3.0],
            "topic": ["math", "code", "math", "code", "code", "chat", "math", "math", "math"],
        }
    )


@pytest.fixture
def many_votes():
    """200 votes on four models in 60 questions, with features of the question."""
    rng = np.random.default_rng(7)
    question = rng.permutation(np.concatenate([np.arange(60), rng.integers(60, size=140)]))
    first = rng.integers(4, size=200)
    names = np.array(["m0", "m1", "m2", "m3"])
    length, topic = rng.normal(size=60), rng.choice(["chat", "code", "math"], size=60)
    return pd.DataFrame(
        {
            "question": [f"q{i:02d}" for i in question],
            "a": names[first],
            "b": names[(first + rng.integers(1, 4, size=200)) % 4],
            "winner": rng.choice(["model_a", "model_b", "tie"], size=200),
            "length": length[question],
            "topic": topic[question],
        }
    )
