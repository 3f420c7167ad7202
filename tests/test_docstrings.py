"""Public names pass numpydoc's validation, and have an example that runs."""

import importlib
import inspect

import pytest

import dmlrank as dr

# Checks of numpydoc that are not asked for, and why.
NOT_ASKED = {
    "ES01": "many functions need no more than their summary line",
    "SA01": "pages link related functions",
    "EX01": "asked for functions and classes only, below: a property needs no example",
}


def public_names():
    """Every public name with its owner: functions, classes, and the methods and properties of public classes."""
    names = {}
    for module in (dr, dr.datasets, dr.functionals):
        for name in module.__all__:
            owner = getattr(module, name)
            if not (name.startswith("__") or inspect.ismodule(owner)):
                names[f"{module.__name__}.{name}"] = owner
    for name, owner in list(names.items()):
        for member, value in inspect.getmembers(owner) if inspect.isclass(owner) else []:
            documented = inspect.isfunction(value) or isinstance(value, property) or inspect.ismethod(value)
            home = inspect.getmodule(value.fget if isinstance(value, property) else value)
            # A method without a docstring of its own has that of the base class, whose method is looked at.
            if documented and value.__doc__ is None and inspect.getdoc(value) is not None:
                continue
            if not member.startswith("_") and documented and home is not None and home.__name__.startswith("dmlrank"):
                names[f"{name}.{member}"] = value
    return names


PUBLIC = public_names()


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_public_names_pass_numpydoc_s_validation(name):
    validate = pytest.importorskip("numpydoc.validate").validate
    errors = [f"{code} {message}" for code, message in validate(name)["errors"] if code not in NOT_ASKED]
    assert not errors, f"{name}: {errors}"


@pytest.mark.parametrize("name", sorted(name for name, owner in PUBLIC.items() if name.count(".") <= 2))
def test_public_functions_and_classes_have_an_example(name):
    doc = inspect.getdoc(PUBLIC[name]) or ""
    if isinstance(PUBLIC[name], type) and issubclass(PUBLIC[name], (Exception, Warning)):
        pytest.skip("an exception is not called")
    if not name.startswith("dmlrank.") or name.split(".")[1] in ("datasets", "functionals") or name.count(".") == 1:
        assert "Examples\n---" in doc, f"{name} has no section Examples"


@pytest.mark.parametrize(
    "place",
    [
        "estimation.one_step:one_step",
        "estimation.one_step:variance_correction",
        "estimation.unanimous_pairs",
        "estimation.mean_preferences:mean_preferences",
        "estimation.equal_style",
        "estimation.voting_bounds",
        "estimation.bt_restricted:RestrictedBradleyTerry",
        "inference.confidence_sequence",
        "planning.allocation",
    ],
)
def test_the_mathematics_of_a_method_stands_in_its_notes(place):
    module, _, name = place.partition(":")
    owner = importlib.import_module(f"dmlrank.{module}")
    doc = inspect.getdoc(getattr(owner, name) if name else owner) or ""
    assert "\nNotes\n-----\n" in doc


def test_names_that_are_looked_at_exist():
    assert len(PUBLIC) > 100
    assert importlib.import_module("dmlrank.api").dml_rank is PUBLIC["dmlrank.dml_rank"]
