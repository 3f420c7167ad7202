"""What the scores of a fit are: definition, unit, dependence on the features, and how wins and ties count."""

from __future__ import annotations

from collections.abc import Sequence

from ..fit.estimates import Estimates
from .sentences import as_sentence, value_text
from .style_summary import win_shares_without_adjustment

_NON_LINEAR = ("bt", "rank_centrality", "dominance", "softmin")
NO_FEATURES = ("1", "0", "0 + 1", "1 + 0", "-1")
_FRACTIONS = {0.0: "0", 0.5: "1/2", 1.0: "1"}


def meaning_note(results: Estimates) -> str:
    """Say what the scores are, what they are compared with, and what "win" is."""
    if results.of_models:
        sentences = [
            score_definition(results),
            *unit_sentences(results),
            as_sentence(results.reason),
            *dependence_sentences(results),
        ]
    else:
        sentences = ["The rows are the outputs of a user-defined functional.", *unit_sentences(results)]
        sentences.append(as_sentence(results.reason))
    if results.has_intervals:
        sentences.append(_tested_hypothesis(results))
    if results.of_models:
        sentences.append(_win_sentence(results))
    return " ".join(sentence for sentence in sentences if sentence)


def score_definition(results: Estimates) -> str:
    """Say what a score is."""
    n_models = len(results.models)
    opponents = f" against the other {n_models - 1} models." if results.graph.complete else "."
    different = "" if results.graph.complete else " The models faced different opponents."
    definitions = {
        "bt": f"Scores are log-odds relative to the average of these {n_models} models.",
        "borda": f"Each score is the mean share of comparisons that the model wins{opponents}{different}",
        "rank_centrality": "Each score is the share of time that a random walk over the models spends at the model. "
        "The walk moves from a model to an opponent more often, the more often the opponent is preferred.",
        "dominance": "Each score is the share of its opponents that the model clearly beats. An "
        "opponent counts in part where the preference is close to the limit of a clear win.",
        "softmin": "Each score is a smooth minimum of the model's preferences over its opponents: how well the model "
        "does against the opponent that is hardest for it.",
    }
    return definitions.get(results.functional, f"The functional of the scores is {results.functional_label}.")


def unit_sentences(results: Estimates) -> list[str]:
    """Say how scores were multiplied and shifted; nothing where they are in the functional's own unit."""
    unit = results.scale
    if unit.natural:
        return []
    unit_texts = {
        "elo": ["Scores are shown in Elo points (400 / ln 10 = 173.7 points for each unit of log-odds)."],
        "log-odds": [],
    }.get(unit.name, [f"Scores are shown multiplied by {unit.factor:g}."])
    if unit.anchor is not None:
        model, value = unit.anchor
        unit_texts.append(f"Scores are shifted so that {model} has {value:g}; the shift changes no interval's width.")
    elif unit.mean is not None:
        unit_texts.append(f"Scores are shifted so that their mean is {unit.mean:g}.")
    return unit_texts


def dependence_sentences(results: Estimates) -> list[str]:
    """Say what the scores depend on, for the package's non-linear functionals and for maximum likelihood.

    The scores of non-linear functionals depend on the features unless preferences are averaged first; those of maximum
    likelihood depend on which pairs were compared. Where the estimator assumes Bradley-Terry, this is said, too.
    """
    if not results.estimated_by.has_first_stages:
        return _likelihood_model(results)
    assumption = (
        ["The estimator assumes that the Bradley-Terry model holds for every prompt; restriction_test() tests this."]
        if results.estimated_by.assumes_bradley_terry
        else []
    )
    if results.functional not in _NON_LINEAR:
        return []
    if results.style is not None and results.style.kind == "equal":
        return ["A formula with other features would define other scores, because log-odds are not linear in votes."]
    if results.description.average == "preferences":
        return [
            "Preferences are averaged over prompts first, and scores are computed from these averages. The target does "
            "not depend on the features in the formula."
        ]
    if _features_of(results) in NO_FEATURES:
        return [
            *assumption,
            "The scores describe preferences averaged over all prompts. A formula with features would define other "
            "scores, unless the preferences are averaged before scores are computed (average='preferences').",
        ]
    return [
        *assumption,
        "For each prompt, scores are computed from the preference probabilities given the features in the formula; the "
        "scores shown are their averages over prompts. The functional is not linear, so that this target depends on "
        "which features are conditioned on: a formula with other features would define other scores, and "
        "average='preferences' has a target that does not depend on the features.",
    ]


def _likelihood_model(results: Estimates) -> list[str]:
    """Say which model's likelihood the scores maximise, and on what they depend where the model does not hold."""
    if results.estimated_by.uses_features:
        return [
            "The scores are means over prompts of r_j(x) = b_j + w_j'x, the scores of a Bradley-Terry model that are "
            "linear in the features x. The coefficients maximise the likelihood of all votes. If log-odds are not "
            "differences of such scores, the means depend on how often each pair was compared on which prompts."
        ]
    unused = (
        []
        if _features_of(results) in NO_FEATURES
        else ["The features of the formula are not used; estimator='bt_contextual' uses them."]
    )
    return [
        "The scores maximise the Bradley-Terry likelihood of all votes. If log-odds are not differences of scores, "
        "the scores depend on how often each pair was compared.",
        *unused,
    ]


def _features_of(results: Estimates) -> str:
    """Return the features of the formula."""
    return results.description.formula.split("~", 1)[-1].split("|")[0].strip()


def _tested_hypothesis(results: Estimates) -> str:
    """Say what z and adj. P compare a row with."""
    row = "a score" if results.of_models else "an output"
    if results.neutral is None:
        return f"z and adj. P test whether {row} equals the mean {row.split()[-1]}."
    if results.functional == "bt":
        return f"z and adj. P test whether {row} equals {neutral_text(results)}, the average of the models."
    return f"z and adj. P test whether {row} equals {neutral_text(results)}."


def neutral_text(results: Estimates) -> str:
    """Return the value that scores are tested against as text; empty where this is the mean score."""
    return "" if results.neutral is None else value_text(results.neutral)


def _win_sentence(results: Estimates) -> str:
    """Say what the column "win" is, and how ties count there."""
    description = results.description
    compared = "the models that it is compared with"
    opponents = f"the other {len(results.models) - 1} models" if results.graph.complete else compared
    ties = tie_weight(description.tie_weights)
    counting = f"; a tie counts {ties}" if description.tie_weights else ""
    return (
        f'"win" is the share of comparisons won against {opponents}{win_shares_without_adjustment(results)}{counting}.'
    )


def tie_weight(ties: Sequence[tuple[str, float, float]]) -> str:
    """Return how much ties count, in words."""
    if not ties:
        return "no ties"
    weights = {name: _fraction(a) if a == b else f"{_fraction(a)} and {_fraction(b)}" for name, a, b in ties}
    if len(set(weights.values())) == 1:
        return next(iter(weights.values()))
    return ", ".join(f"{name.replace('_', ' ')} {weight}" for name, weight in weights.items())


def _fraction(weight: float) -> str:
    return _FRACTIONS.get(weight, f"{weight:g}")
