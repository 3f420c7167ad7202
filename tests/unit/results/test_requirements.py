"""Models are found by name, given one by one or all."""

from __future__ import annotations

import pytest

from dmlrank.exceptions import UnknownModelError
from dmlrank.results.requirements import names_or_all, place_of


def test_models_have_places():
    assert place_of(("a", "b"), "b") == 1
    with pytest.raises(UnknownModelError, match="gpt4"):
        place_of(("gpt-4", "claude"), "gpt4")


@pytest.mark.parametrize(("given", "expected"), [(None, ["a", "b"]), ("b", ["b"]), (("b", "a"), ["b", "a"])])
def test_one_name_several_or_all(given, expected):
    assert names_or_all(given, ("a", "b")) == expected
