"""Every fact of the list can be said: its words in braces exist, and what it needs is there where its modes hold."""

from __future__ import annotations

import re

import pytest

import dmlrank as dr
from dmlrank.report import fact_words
from dmlrank.report.fact_words import Subject
from dmlrank.report.facts import FACTS, FIRST, short_facts
from dmlrank.results.units_and_views import summary_level


def subject_of(result, **more):
    estimates = result.estimates
    return Subject(estimates, summary_level(estimates, result.simultaneous, estimates.alpha), **more)


def test_words_in_braces_exist_and_no_word_is_unused(arena_result):
    text = " ".join(fact.short + fact.long for facts in FACTS.values() for fact in facts)
    subject, own = subject_of(arena_result), {"e", "d", "g", "level", "race"}
    used = set(re.findall(r"{(\w+)", text)) - own
    assert all(isinstance(subject[word], str) for word in used - {"verdicts", "gain", "unlabelled", "bias", "scale"})
    assert used <= set(fact_words.WORDS) | set(vars(fact_words))
    assert set(fact_words.WORDS) <= used | {"chosen"}


@pytest.mark.parametrize(
    "options",
    [{}, {"estimator": "plugin"}, {"estimator": "bt_mle"}, {"estimator": "bt_contextual"}, {"functional": "borda"}],
)
def test_a_summary_and_a_verdict_choose_from_the_list(arena_result, options):
    result = arena_result.update(**options)
    notes = " ".join(result.summary().notes)
    said = short_facts(subject_of(result), FIRST)
    assert " ".join(said) in notes
    assert all(text in " ".join(result.explain().split()) for text in said)
    page = subject_of(result, on_page=True)
    assert short_facts(page, FIRST) == said


def test_the_notes_below_eight_models_are_eight_lines():
    data = dr.datasets.simulate_arena(n=800, rng=0)
    formula = "winner ~ C(category) + length | model_a + model_b"
    result = dr.dml_rank(formula, data, functional="bt", context="question_id", rng=0, n_jobs=1)
    assert len(result.models) == 8
    below = result.summary().as_text().rpartition("====\n")[2]
    assert len(below.splitlines()) <= 8
    assert len(below.split()) <= 130
    text, treatment = " ".join(result.explain().split()), result.diagnostics.second_order_treatment
    assert f"The bias from these squares was estimated and {treatment}." in text
    assert ("The labels are too few to see all of them" in text) == (treatment == "partly removed")
