"""Models are found by name, given one by one or all."""

import pytest

from dmlrank._utils.argument_checks import names_or_all, place_of, places_of
from dmlrank.exceptions import OptionError, UnknownModelError


def test_models_have_places():
    assert place_of(("a", "b"), "b") == 1
    with pytest.raises(UnknownModelError, match="gpt4"):
        place_of(("gpt-4", "claude"), "gpt4")


@pytest.mark.parametrize(("given", "expected"), [(None, ["a", "b"]), ("b", ["b"]), (("b", "a"), ["b", "a"])])
def test_one_name_several_or_all(given, expected):
    assert names_or_all(given, ("a", "b")) == expected


def test_places_are_those_of_the_chosen_names():
    assert places_of(("a", "b", "c"), ("c", "a")) == [2, 0]
    assert places_of(("a", "b", "c"), None) == [0, 1, 2]
    for chosen, least in ((("a", "a"), 1), ((), 1), ("a", 2)):
        with pytest.raises(OptionError, match="each once"):
            places_of(("a", "b", "c"), chosen, least=least)
