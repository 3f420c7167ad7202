"""Names of columns with points and digits, as LMArena has them, are named in errors as they were written."""

from __future__ import annotations

import pytest

import dmlrank as dr
from dmlrank.exceptions import FormulaError


@pytest.mark.parametrize("name", ["criteria_v0.1.length", "math_v0.1.math", "a.1b", "x v2.0"])
def test_a_name_that_is_not_python_is_quoted_as_it_was_written(name):
    battles = dr.datasets.simulate_arena(n=60, rng=0).rename(columns={"length": name})
    with pytest.raises(FormulaError) as error:
        dr.dml_rank(f"winner ~ {name} | model_a + model_b", battles)
    assert f"Q({name!r})" in str(error.value)
