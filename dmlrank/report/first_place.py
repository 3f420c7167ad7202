"""Who is first, by how much, what is open and what would decide it, from the tests behind a table."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..data.preferences import FEW_CLUSTERS
from ..fit.estimates import Estimates
from ..inference.ranks import FirstPlace, rank_bounds
from ..inference.score_limits import normal_critical
from ..tables.summary_table import decimals, fewest_decimals, fixed_text, p_value_clause
from .phrases import SummaryLevel, counted, enumerated, models_with_few_votes, some_of

POWER = 0.8
# Intervals of wins in 100 comparisons that are narrower than this have a digit after the point.
_NARROW = 3
# Beyond this multiple of the data no number of prompts is named.
_MOST_TIMES = 1000


@dataclass(frozen=True, slots=True, eq=False)
class Race:
    """The test of first place, in words."""

    results: Estimates
    level: SummaryLevel
    first: FirstPlace

    @property
    def unplaced(self) -> str:
        """Say which models have too few votes or prompts to be placed, and what ranks the others; empty without any."""
        names = [self.results.models[k] for k in self.first.unplaced]
        if not names:
            return ""
        votes = models_with_few_votes(self.results)
        few = [votes[name] for name in names if name in votes]
        named = [f"{name} ({counted(votes[name], self.results.counts)})" if name in votes else name for name in names]
        said = f"{some_of(named)} {'has' if len(names) == 1 else 'have'} too few "
        said += f"{self.results.counts if few else 'prompt'}s to be placed"
        if not few:
            return f"{said}."
        # Votes against models that are left out counted for min_votes=, too, and are not known here.
        more = "..." if self.results.diagnostics.models_dropped else max(few) + 1
        return f"{said}; res.update(min_votes={more}) ranks the others."

    @property
    def n_pairs(self) -> int:
        """Number of pairs of models."""
        return len(self.results.models) * (len(self.results.models) - 1) // 2

    @property
    def who_leads(self) -> str:
        """Say whether first place is decided, and where only its own test decides it, why ranks say less."""
        first, models, unplaced = self.first, self.results.models, self.unplaced
        leader, is_open = models[first.leader], ~(first.p <= first.alpha)
        p_values = {models[k]: float(p) for k, p in zip(first.others, first.p, strict=True)}
        test = "test of first place" if first.is_single else "adjusted for all pairs"
        if first.decided:
            shown = f"{test}: P {p_value_clause(float(first.p.max()))}"
            if unplaced:
                return f"Of the models with enough votes {leader} is first ({shown}). {unplaced}"
            if first.separated.all():
                return f"First place is decided: {leader} is first ({shown})."
            worst = int(rank_bounds(self.level.separation.above)[1][first.leader]) if self.level.separation else 0
            return (
                f"{leader} is first if this is the only question ({shown}); its rank in the table, 1-{worst}, "
                f"allows for questions about all {self.n_pairs:,} pairs of models at once."
            )
        equal = [models[k] for k in first.others[first.difference == 0]]
        leads = "of the models with enough votes " * bool(unplaced)
        leads += f"{leader} leads" + (f", with the same score as {some_of(equal)}" if equal else "")
        others = "each of the other models" if len(p_values) > 1 else "the other model"
        named = [models[k] for k in first.others[is_open]]
        is_nobody_out = bool((first.p > first.alpha).all())
        who = others if is_nobody_out else some_of(named)
        p = max(p_values[name] for name in (p_values if is_nobody_out else named))
        shown = f"{test}: P {p_value_clause(p)}"
        said = f"First place is not decided: {leads}, but {who} may be first, too ({shown})."
        return f"{said} {unplaced}".rstrip()

    @property
    def order_of_lead(self) -> str:
        """Say where display order alone may make the lead."""
        wins = self.results.diagnostics.order_of_lead
        return (
            f"Most pairs were shown in one order only: if a model wins {fixed_text(wins, 1)} of 100 when shown first, "
            f"display order alone makes this lead."
            if wins
            else ""
        )

    @property
    def by_how_much(self) -> str:
        """Say by how much the leader is above the best model that may be first as well, or else the second one."""
        results, first, place = self.results, self.first, self.first.rival
        # The rival is the best model that may be first as well, or else the second one.
        leader, rival = results.models[first.leader], results.models[first.others[place]]
        confidence = self.level.confidence
        gap, ends = float(first.difference[place]), (first.low[place], first.high[place])
        digits = decimals(first.std_error[[place]], fewest=fewest_decimals(results.scale.natural))
        score = float(results.estimate[first.leader])
        is_share = results.scale.natural and bool(((results.estimate >= 0) & (results.estimate <= 1)).all())
        texts = [fixed_text(number, digits) for number in (gap, *ends)]
        if is_share and results.functional == "borda":
            digits = max(digits - 2, 0)
            own, *texts = (fixed_text(100 * number, digits) for number in (score, gap, *ends))
            opponents = (
                f"the other model{'s' * (len(results.models) > 2)}" if results.graph.complete else "its opponents"
            )
            said = f"wins {own} of 100 comparisons with {opponents}, {texts[0]} more than {rival}"
        elif results.are_means:
            more = "more" if results.sign > 0 else "less"
            own = fixed_text(score, digits)
            said = f"has a {results.quantity} of {own}, {texts[0]} {more} than {rival}"
        elif results.kind.link == "logit":
            shares = 100 / (1 + np.exp(-np.array([gap, *ends]) / results.scale.factor))
            texts = [fixed_text(share, int(shares[2] - shares[1] < _NARROW)) for share in shares]
            said = f"would by its score win {texts[0]} of 100 comparisons with {rival}"
        else:
            said = f"leads {rival} by {texts[0]}{' Elo points' * (results.scale.name == 'elo')}"
        # A decision is no contradiction of an interval that contains zero.
        allows = f", which allows for all {self.n_pairs:,} pairs at once" if first.decided and ends[0] <= 0 else ""
        return f"{leader} {said} ({confidence} interval {texts[1]} to {texts[2]}{allows})."

    @property
    def what_would_decide(self) -> tuple[str, str]:
        """Say how many prompts or votes would decide first place, in short and in detail; empty where it is decided."""
        results, first, d = self.results, self.first, self.results.description
        if first.decided:
            return "", ""
        if results.looks:
            return "A later look may decide it.", ""
        is_short, times = first.p > first.alpha, first.times_more(POWER)
        are_too_few = _are_too_few(results)
        wanted = data_wanted(results, times)
        if not wanted:
            return "", ""
        smaller = "If the leads are smaller than estimated, it takes more" if "would decide it with" in wanted else ""
        supposed = "" if are_too_few else " if leads are as estimated"
        rivals = [first.leader, *first.others[is_short]]
        # Votes on pairs of other models say next to nothing about the difference of two such scores.
        votes = results.votes if results.functional in ("borda", "bt") and results.counts == "vote" else None
        involved, n_used = (int(votes.used[rivals].sum()), votes.n_used) if votes else (0, 0)
        # Of two kinds of clusters it is not known how their numbers would grow together.
        is_targeted = times <= _MOST_TIMES and not are_too_few and len(d.clusters) < (1 if results.are_means else 2)
        if results.are_means and is_targeted and len(rivals) < len(results.models):
            named = [results.models[k] for k in rivals]
            who = enumerated(named) if len(named) <= 3 else f"the leader and its {len(named) - 1} closest rivals"
            needed = "them" if results.grades is not None else "scores on them"
            return f"{wanted}{supposed}; only {who} need {needed}.", f"{smaller}."
        drawn = ", with pairs drawn as so far" * (results.counts == "vote" and "in all" in wanted)
        if not is_targeted or not 0 < 2 * involved < n_used:
            return f"{wanted}{supposed}{drawn}.", f"{smaller}." if smaller else ""
        closest = results.models[rivals[1]] if len(rivals) == 2 else f"one of its {len(rivals) - 1} closest rivals"
        further = max(int(float(f"{np.ceil((times - 1) * involved):.2g}")), 1)
        new, what = ", on new prompts," * bool(d.context and n_used > d.n_contexts), "independent votes"
        if d.clusters:
            number = float(f"{np.ceil((times - 1) * results.covariance.n_clusters[0]):.2g}")
            what, new = "votes", f"{new or ','} from {number:,.15g} further values of the column {d.clusters[0]!r},"
        return (
            f"About {further:,} more {what} on pairs with the leader or {closest}{new} would decide it with "
            f"{100 * POWER:.0f} % chance{supposed}.",
            f"{smaller}. With pairs drawn as so far, it takes {wanted[0].lower()}{wanted[1:].partition(' would')[0]}.",
        )

    @property
    def all_pairs_at_once(self) -> str:
        """Say which models tests of all pairs leave open beyond the test of first place."""
        first, models = self.first, self.results.models
        further = [models[k] for k in first.others[~first.separated & (first.p <= first.alpha)]]
        return (
            f"Ranks and intervals allow for questions about all {self.n_pairs:,} pairs of models at once, which the "
            f"test of first place need not; they alone leave {some_of(further)} open as first."
            if further
            else ""
        )


def headline(results: Estimates, level: SummaryLevel) -> str:
    """Return who is first by the rank sets of the table, in a sentence; empty without tests."""
    race = race_of(results, level)
    if race is None or level.separation is None:
        return ""
    unplaced, of = race.first.unplaced, "Of the models with enough votes, " * bool(race.unplaced)
    ranked = np.argsort(-results.merit, kind="stable")
    best = rank_bounds(level.separation.above)[0]
    first = [results.models[j] for j in ranked if best[j] == 1 and not results.is_unseen[j] and j not in unplaced]
    named = f"All {len(first):,} models" if len(first) == len(ranked) > 2 else some_of(first)
    return f"{of}{named} {'is' if len(first) == 1 else 'are tied for'} first."


def race_of(results: Estimates, level: SummaryLevel) -> Race | None:
    """Return who may be first; None where there is no test of it."""
    return None if level.first is None or level.separation is None else Race(results, level, level.first)


# --- sentences --------------------------------------------------------------------------------------------------------


def data_wanted(results: Estimates, times: float) -> str:
    """Say how many prompts would decide a question, without a full stop; empty where no number would."""
    # The power at one sample size says little of tests at all looks.
    d = results.description
    if d.prompts == "fixed" or results.looks:
        return ""
    unit, number = independent_units(results)
    if _are_too_few(results):
        return f"{number} {unit} are too few to say how many would decide it"
    if times > _MOST_TIMES:
        return f"Even {_MOST_TIMES:,} times as many {unit} would not decide it"
    if results.grades is not None:
        unit, number = "grades of each model", int(results.grades.graded.min())
    # Two digits, because what is estimated is uncertain.
    wanted = max(int(float(f"{np.ceil(times * number):.2g}")), number + 1)
    votes = ""
    if d.clusters:
        each, of_all = (float(f"{n:.2g}") for n in (d.n_votes / number, d.n_votes / number * wanted))
        votes = f"; about {each:,.6g} {results.counts}s of each, {of_all:,.15g} {results.counts}s"
    if results.grades is not None:
        votes = ", on judged prompts that grow in proportion"
    chance = f"with {100 * POWER:.0f} % chance"
    return f"About {wanted:,} independent {unit} in all ({number:,} so far{votes}) would decide it {chance}"


def _are_too_few(results: Estimates) -> bool:
    """Return whether votes are about so few independent units that no number of further ones can be named."""
    return not results.are_means and independent_units(results)[1] <= FEW_CLUSTERS


def independent_units(results: Estimates) -> tuple[str, int]:
    """Return what the precision grows with, and its number; of two kinds of clusters those that are fewer."""
    d, n_clusters = results.description, results.covariance.n_clusters
    if not d.clusters:
        rows = "votes" if d.n_votes == d.n_contexts and results.counts == "vote" else "rows"
        return "prompts" if d.context else rows, d.n_contexts
    fewest = int(np.argmin(n_clusters))
    return f"values of the column {d.clusters[fewest]!r}", n_clusters[fewest]


def mean_of_one(results: Estimates, level: SummaryLevel) -> str:
    """Say the mean of a single model."""
    digits = decimals(results.std_errors, fewest=fewest_decimals(results.scale.natural))
    ends = (results.estimate, *results.intervals(level.critical))
    score, low, high = (fixed_text(float(end[0]), digits) for end in ends)
    about = f"{results.models[0]} has a {results.quantity} of {score}"
    return f"{about} ({level.confidence} interval {low} to {high})."


def wins_by_order(results: Estimates, level: SummaryLevel) -> str:
    """Say how often a model wins when shown first and when second, with an interval of its own in a fit of one look."""
    effect, z = results.diagnostics.position_effect, results.diagnostics.position_z
    if not (np.isfinite(effect) and np.isfinite(z)):
        return "the effect of being shown first cannot be tested"
    error = effect / z if z else 0.0
    ends = np.clip(effect + normal_critical(level.alpha / 2) * error * np.array([-1, 1]), -1, 1)
    first, second, low, high = (fixed_text(50 + 50 * number, 1) for number in (effect, -effect, *ends))
    # An interval of one look does not hold at several.
    interval = f" ({level.confidence} interval by itself {low} to {high})" if not results.looks else ""
    return f"a model wins {first} of 100 when shown first{interval}, {second} when second"
