"""Sensitivity of a result to who votes and to missing scores: hypotheses, analyses, tables and sentences."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from .._utils.argument_checks import number_in, real_number
from .._utils.tasks_and_threads import warn
from ..data.derived_pairs import DerivedPairs
from ..data.hypotheses import HypothesisLike, LinearHypothesis, read_hypothesis
from ..data.preferences import FloatArray, IntArray
from ..estimation.influence import Influence
from ..exceptions import HypothesisError, IntervalWarning, OptionError, shown
from ..fit.direct_fits import placebo
from ..fit.estimates import Estimates
from ..fit.fit_covariance import make_covariance
from ..fit.judges_of_scores import modelled_shares
from ..fit.state import FitState
from ..fit.tipping_points import BoundEvaluation, distances, extend_to_tipping_points, tipping_gammas
from ..functionals.linear_scores import PassAtK
from ..inference.score_limits import normal_critical
from ..inference.simultaneous import MaxT, Simultaneous
from ..report.phrases import counted, functional_unit, percentage
from ..tables.summary_table import Summary, decimals, fewest_decimals
from .requirements import TitledTable, require_intervals

_SIDES = ("lower", "upper", "conf_lower", "conf_upper")
_GAMMA = (
    "given the label that a voter would give, the odds of voting lie between 1/gamma and gamma times the odds given "
    "the prompt and the pair alone. gamma = 1 is the assumption of the fit."
)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SensitivityResults(TitledTable):
    """How far contrasts of scores can move if voting depends on the label; :meth:`RankResults.sensitivity` returns one.

    Attributes
    ----------
    result_frame : DataFrame
        Bounds, a row per hypothesis and gamma: ``hypothesis gamma lower upper conf_lower conf_upper``. The interval
        covers both bounds, simultaneously over the hypotheses, at each gamma.
    tipping : DataFrame
        A row per hypothesis: at ``gamma_estimate`` the bound reaches the hypothetical value, at ``gamma_interval`` its
        confidence limit does: 1 if the interval of the estimate contains the value, inf if not up to gamma = 100.
    estimates : Estimates
        Estimates of the fit.
    hypothesis : LinearHypothesis
        The contrasts and their hypothetical values.
    estimate, std_error : ndarray
        Estimates of the contrasts and their standard errors, in the unit in which scores are shown.
    gammas : tuple of float
        The gammas that the user asked for.
    n_shown, n_unvoted : int
        Number of shown battles, and of those without a vote.
    is_sharp : bool
        Whether no contrast outside of the bounds is possible; otherwise this holds to first order in gamma - 1.
    is_chosen_by_data : bool
        Whether the hypotheses are the default: neighbours on the leaderboard.

    Examples
    --------
    >>> import dmlrank as dr
    >>> battles = dr.datasets.simulate_arena(n=2000, rng=0)
    >>> battles.loc[::5, "winner"] = None   # shown, and nobody voted
    >>> res = dr.dml_rank("winner ~ 1 | model_a + model_b", battles, rng=0)
    >>> sensitivity = res.sensitivity("gpt-4 - dolly-v2-12b", gamma=(1, 2))
    >>> sensitivity.result_frame.columns.tolist()
    ['hypothesis', 'gamma', 'lower', 'upper', 'conf_lower', 'conf_upper']
    """

    result_frame: pd.DataFrame
    tipping: pd.DataFrame
    estimates: Estimates
    hypothesis: LinearHypothesis
    estimate: FloatArray
    std_error: FloatArray
    gammas: tuple[float, ...]
    n_shown: int
    n_unvoted: int
    is_sharp: bool
    is_chosen_by_data: bool

    def __repr__(self) -> str:
        gammas = ", ".join(f"{gamma:g}" for gamma in self.gammas)
        return f"<SensitivityResults: {len(self.tipping)} contrasts, gamma {gammas}>"

    def sentence(self) -> str:
        """Return one sentence: how strongly voting may depend on the label before the first result changes."""
        decided = self.tipping[self.tipping["gamma_interval"] > 1]
        if not len(decided):
            return "None of the contrasts is decided, so that no assumption about who votes can undo a result."
        name, sign, interval = decided.iloc[int(decided["gamma_interval"].to_numpy(dtype=float).argmin())]
        if np.isinf(interval):
            return "All decided contrasts stay decided even if the label changes the odds of voting by a factor of 100."
        change = "does not change up to 100" if np.isinf(sign) else f"may change at {sign:.2f}"
        subject = f"The result that depends most on who votes is {name}: it" if len(self.tipping) > 1 else str(name)
        factor = f"a factor of {interval:.2f}, and its sign {change}"
        return f"{subject} is no longer decided if the label changes the odds of voting by {factor}."

    def _table(self) -> Summary:
        # The middle gamma above 1, or the only one.
        above = [gamma for gamma in self.gammas if gamma > 1]
        gamma = above[(len(above) - 1) // 2] if above else self.gammas[0]
        limits = self.result_frame.loc[self.result_frame["gamma"] == gamma, [*_SIDES]].to_numpy(dtype=float)
        tips = self.tipping[["gamma_estimate", "gamma_interval"]].to_numpy(dtype=float)
        digits = decimals(self.std_error, fewest=fewest_decimals(self.estimates.scale.natural))
        rows = []
        for place, name in enumerate(self.hypothesis.labels):
            numbers = (f"{number:.{digits}f}" for number in (self.estimate[place], *limits[place]))
            rows.append((name, *numbers, *map(gamma_text, tips[place])))
        level = f"{100 * (1 - self.estimates.alpha):g}"
        pairs = ((f"[bounds, gamma={gamma:g}]", 2), (f"[{level}% simult. CI]", 2))
        columns = (("estimate", 1), *pairs, ("tipping gamma", 1), ("of CI", 1))
        unvoted = f"{self.n_unvoted:,} of {self.n_shown:,}" if self.n_unvoted else "not in the data"
        header = (
            ("Functional:", functional_unit(self.estimates), "Contrasts:", f"{len(rows):,}"),
            ("Gamma:", ", ".join(f"{g:g}" for g in self.gammas), "Shown without a vote:", unvoted),
            ("Bounds:", "sharp" if self.is_sharp else "first order", "Level:", f"{level} % simultaneous"),
        )
        notes = [
            f"gamma: {_GAMMA} The bounds are the lowest and the highest value that all shown battles together can "
            f"have. The tipping gamma is the smallest at which the bound reaches the hypothetical value (0 for a "
            f"difference), and then its interval, which is 1.00 if the interval of the estimate already contains it.",
            self.sentence(),
        ]
        if not self.is_sharp:
            notes.append("The bounds hold to first order: as the functional is not linear, some votes may lie beyond.")
        if self.is_chosen_by_data:
            notes.append("Contrasts are neighbours on the leaderboard; intervals have the critical value of all pairs.")
        notes.append(self._shown_battles())
        return Summary("Sensitivity to Who Votes", header, columns, tuple(rows), tuple(notes), "contrast")

    def _shown_battles(self) -> str:
        """Say how many shown battles got no vote, or that the data do not have them."""
        if self.n_unvoted:
            share = percentage(self.n_unvoted / self.n_shown)
            return f"{counted(self.n_unvoted, 'battle')} of {self.n_shown:,} that were shown ({share}) got no vote."
        return (
            "The data have no shown battles without a vote (rows with two models and a missing winner). Every pair of "
            "every prompt therefore counts as shown, so that the bounds are wide."
        )

    def page_section(self, shown: Estimates) -> tuple[str, str, Summary, str]:
        """Return title, table and note of the section in a page, which has no picture, in the unit that is shown."""
        factor = shown.scale.factor / self.estimates.scale.factor
        frame = self.result_frame.assign(**{side: factor * self.result_frame[side] for side in _SIDES})
        numbers, errors = factor * self.estimate, factor * self.std_error
        own = replace(self, estimates=shown, result_frame=frame, estimate=numbers, std_error=errors)
        assumed = "The scores assume that votes not cast are like those cast. Suppose that they are not:"
        text = f"{assumed} {_GAMMA} {self._shown_battles()} {self.sentence()}"
        return "If those who vote differ from those who do not", "", replace(own.summary(), notes=()), text


def gamma_text(gamma: float) -> str:
    """Return a tipping point as text."""
    if np.isinf(gamma):
        return ">100"
    return f"{gamma:.2f}" if gamma < 10 else f"{gamma:.3g}"


@dataclass(frozen=True, slots=True, eq=False)
class ScoreBounds(TitledTable):
    """Bounds of contrasts of means, whatever the missing scores are; :meth:`RankResults.sensitivity` returns one.

    Attributes
    ----------
    result_frame : DataFrame
        A row per contrast: ``hypothesis lower upper conf_lower conf_upper``. ``lower`` counts every missing score as
        the worst for the contrast, ``upper`` as the best. ``tipping`` is by how much less the models would have to
        differ than predicted, on clusters on which they were never run, for the interval to contain zero.
    score_range : tuple of float
        The smallest and the largest score that a missing score may have.
    n_missing : int
        Number of missing scores: of runs, in a table of runs.
    placebo : DataFrame
        By model that was never run on some clusters: of the latest fifth of those on which it was, in the order of the
        data, the number ``clusters`` that were left out and predicted, and the ``error``, how much higher the scores
        are than predicted, with its interval ``lower upper``.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import dmlrank as dr
    >>> table = pd.DataFrame({"prompt": [*range(100)] * 2, "model": ["a"] * 100 + ["b"] * 100})
    >>> table["score"] = [1, 1, 0, 1] * 25 + [0, 1, np.nan, 0] * 25
    >>> table["long"] = table["prompt"] % 2
    >>> res = dr.dml_rank("score ~ long | model", table, context="prompt", missing="model")
    >>> res.sensitivity("a - b").result_frame[["lower", "upper"]].to_numpy().tolist()
    [[0.25, 0.5]]
    """

    result_frame: pd.DataFrame
    score_range: tuple[float, float]
    n_missing: int
    placebo: pd.DataFrame

    def _table(self) -> Summary:
        numbers = self.result_frame.iloc[:, 1:5].to_numpy()
        digits = decimals(np.abs(numbers[:, 3] - numbers[:, 2]) / 4, fewest=1)
        rows = tuple(
            (str(name), *(f"{number:.{digits}f}" for number in row))
            for name, row in zip(self.result_frame["hypothesis"], numbers, strict=True)
        )
        header = (
            ("Missing scores:", f"{self.n_missing:,}", "Range of scores:", "{:g} to {:g}".format(*self.score_range)),
        )
        columns = tuple((head, 1) for head in _SIDES)
        of_bounds = (
            "lower counts every missing score as the worst for the contrast, upper as the best; nothing is assumed "
            "about why scores are missing. The interval contains both bounds with the confidence of the result."
        )
        of_tasks = [
            f"Placebo: on {n} clusters that were left out and predicted, {name} does {error:+.{digits}f} better than "
            f"predicted ({low:.{digits}f} to {high:.{digits}f})."
            for name, n, error, low, high in self.placebo.itertuples(name=None)
        ]
        tipping = [
            f"{name} holds unless it is {size:.{digits}f} smaller than predicted where a model was never run."
            for name, size in self.result_frame[["hypothesis", "tipping"]].dropna().itertuples(index=False, name=None)
        ]
        notes = (of_bounds, *of_tasks, *tipping)
        return Summary("Bounds for Missing Scores", header, columns, rows, notes, "hypothesis")


# A contrast is fixed by the functional where its standard error is below this share of the largest standard error of a
# score, times the largest absolute coefficient of the contrast.
_FIXED = 1e-9


def analyse_sensitivity(
    estimates: Estimates, state: FitState, simultaneous: Simultaneous, hypothesis: HypothesisLike | None, gamma: object
) -> SensitivityResults:
    """Return bounds and tipping points, see :meth:`RankResults.sensitivity`."""
    gammas = _read_gammas(gamma)
    _require_debiased_fit(estimates, state)
    contrasts, value, critical = _contrasts(estimates, simultaneous, hypothesis)
    scale, alpha = estimates.scale, estimates.alpha
    evaluation = BoundEvaluation.of(state, contrasts.matrix, critical)
    if not evaluation.battles.n_unvoted:
        warn(
            "the data have no shown battles without a vote (rows with two models and a missing winner): every pair "
            "counts as shown, so that the bounds are wide; keep the battles without a vote in the data",
            kind=IntervalWarning,
        )
    bounds = extend_to_tipping_points(
        evaluation.at(sorted({1.0, *gammas}), alpha), value, lambda further: evaluation.at(further, alpha)
    )
    estimate, std_error = (bounds.lower[0] + bounds.upper[0]) / 2, bounds.lower_error[0]
    of_bounds, of_limits = distances(bounds, value)
    tipping = {
        "hypothesis": list(contrasts.labels),
        "gamma_estimate": tipping_gammas(bounds.gamma, of_bounds),
        "gamma_interval": tipping_gammas(bounds.gamma, of_limits),
    }
    shift = scale.shift * contrasts.matrix.sum(axis=1)
    # A row per hypothesis and gamma that the user asked for.
    rows, n_contrasts = np.flatnonzero(np.isin(bounds.gamma, gammas)), len(contrasts.labels)
    columns = {
        "hypothesis": np.repeat(np.array(contrasts.labels, dtype=object), len(rows)),
        "gamma": np.tile(bounds.gamma[rows], n_contrasts),
        **{name: (scale.factor * getattr(bounds, name)[rows] + shift).T.ravel() for name in _SIDES},
    }
    return SensitivityResults(
        result_frame=pd.DataFrame(columns),
        tipping=pd.DataFrame(tipping),
        estimates=estimates,
        hypothesis=contrasts,
        estimate=scale.factor * estimate + shift,
        std_error=scale.factor * std_error,
        gammas=gammas,
        n_shown=len(evaluation.battles),
        n_unvoted=evaluation.battles.n_unvoted,
        is_sharp=evaluation.is_sharp,
        is_chosen_by_data=hypothesis is None,
    )


def score_bounds(
    estimates: Estimates,
    state: FitState,
    simultaneous: Simultaneous,
    hypothesis: HypothesisLike | None,
    score_range: object,
) -> ScoreBounds:
    """Return bounds of contrasts of means for any missing scores, see :meth:`RankResults.sensitivity`."""
    assert state.data.scores is not None
    scores = state.data.scores.mean
    options, source = state.options, state.source.data
    missing, known, has_score = np.isnan(scores).astype(float), scores, np.isfinite(scores)
    n_missing = int(missing.sum())
    runs = source.with_enough(options.pairs.min_votes).runs if isinstance(source, DerivedPairs) else None
    if runs is not None and isinstance(options.missing, str) and options.estimates_propensity:
        # Of a prompt on which some of the runs were lost, the others have their share of the mean.
        expected, lost = (table[state.data.row_index] for table in (runs.expected, runs.n_missing))
        missing = np.divide(lost, expected, out=missing, where=expected > 0)
        # The others say less of pass@k, which any of them may decide.
        missing = np.ceil(missing) if isinstance(options.functional, PassAtK) else missing
        known, n_missing = runs.value[np.isfinite(runs.value)], int(lost.sum())
    if not missing.any():
        gaps = "" if options.missing in ("raise", "model") else "; fit the table with its gaps (missing='model')"
        raise OptionError(
            f"sensitivity() of means of scores bounds what missing scores could change, and this fit has none{gaps}"
        )
    low, high = float(np.nanmin(known)), float(np.nanmax(known))
    if score_range is not None:
        given = [real_number(end) for end in score_range] if isinstance(score_range, tuple | list) else []
        numbers = [end for end in given if end is not None]
        if not len(numbers) == len(given) == 2 or numbers[0] > low or numbers[1] < high or numbers[0] >= numbers[1]:
            raise OptionError(
                f"score_range={shown(score_range)} is not allowed: it is (smallest, largest), and contains the scores, "
                f"which lie between {low:g} and {high:g}"
            )
        low, high = numbers
    contrasts, _, critical = _contrasts(estimates, simultaneous, hypothesis)
    matrix, filled = contrasts.matrix, np.where(has_score, scores, 0.0) * (1 - missing)
    ends = np.stack([matrix * low, matrix * high])
    extremes, n = (ends.min(axis=0), ends.max(axis=0)), len(scores)
    values = np.hstack([filled @ matrix.T + missing @ extreme.T for extreme in extremes])
    influence = Influence(values, np.zeros_like(values), np.arange(n), np.ones(n), state.influence.weight)
    covariance = make_covariance(influence, np.empty((0, 2 * len(matrix))), state.units, fixed_prompts=False)
    # Every prompt counts here, so that the degrees of freedom are those of all prompts.
    critical = critical or covariance.from_normal(float(normal_critical(estimates.alpha / 2)))
    scale, shift = estimates.scale.factor, estimates.scale.shift * matrix.sum(axis=1)
    (lower, upper), (of_lower, of_upper) = (
        part.reshape(2, -1) * scale for part in (influence.estimate, covariance.std_errors)
    )
    frame = pd.DataFrame(
        {
            "hypothesis": list(contrasts.labels),
            "lower": lower + shift,
            "upper": upper + shift,
            "conf_lower": lower + shift - critical * of_lower,
            "conf_upper": upper + shift + critical * of_upper,
        }
    )
    shares, clusters = np.zeros(scores.shape[1]), state.units.clusters
    if clusters is not None and options.estimates_propensity:
        shares, _ = modelled_shares(state.data, state.units)
    # The contrast rests on predictions for as many prompts as one of its models was never run on.
    modelled, of_fit = np.where(matrix != 0, shares, 0.0).max(axis=1), estimates.covariance
    error = np.sqrt(np.square(matrix @ of_fit.factor).sum(axis=1))
    ends = np.stack(of_fit.law(matrix @ estimates.estimate, error, matrix).limits(critical))
    nearest_end = np.where(np.sign(ends[0]) == np.sign(ends[1]), np.abs(ends).min(axis=0), np.nan)
    frame["tipping"] = np.divide(nearest_end, modelled, out=np.full(len(modelled), np.nan), where=modelled > 0)
    half_width, found = float(normal_critical(estimates.alpha / 2)), {}
    for j in np.flatnonzero(shares > 0):
        if (left_out := placebo(state, int(j))) is not None:
            number, mean, of_mean = left_out
            found[state.data.items[j]] = (number, mean, mean - half_width * of_mean, mean + half_width * of_mean)
    placebos = pd.DataFrame.from_dict(found, orient="index", columns=["clusters", "error", "lower", "upper"])
    return ScoreBounds(frame, (low, high), n_missing, placebos)


def _read_gammas(gamma: object) -> tuple[float, ...]:
    """Return the values of gamma, sorted, each once."""
    numbers = set()
    for value in np.atleast_1d(np.asarray(gamma, dtype=object)).ravel():
        allowed = "it bounds an odds ratio: allowed are finite numbers of at least 1, such as (1, 1.5, 2)"
        numbers.add(number_in("gamma", value, lambda number: 1 <= number < np.inf, allowed))
    if not numbers:
        raise OptionError("gamma is empty; give at least one number, such as gamma=1.5")
    return tuple(sorted(numbers))


def _require_debiased_fit(estimates: Estimates, state: FitState) -> None:
    """Raise for fits that have no bounds."""
    options, estimator = state.options, estimates.estimator
    if isinstance(state.source.data, DerivedPairs):
        raise OptionError(
            "sensitivity() with comparisons made from scores or rankings: nobody voted on single battles; fit a frame "
            "of battles"
        )
    refusals = {
        f"estimator={estimator!r}": (not estimates.estimated_by.is_unrestricted_one_step, "estimator='debiased'"),
        "judge=": (options.judge is not None, "judge=None"),
        "adjust=": (options.adjust is not None, "adjust=None"),
        f"average={options.average!r}": (options.average != "scores", "average='scores'"),
    }
    for option, (is_refused, change) in refusals.items():
        if is_refused:
            raise OptionError(f"sensitivity() with {option} has no bounds; use update({change}).sensitivity()")
    require_intervals(estimates, "sensitivity")


def _contrasts(
    estimates: Estimates, simultaneous: Simultaneous, hypothesis: HypothesisLike | None
) -> tuple[LinearHypothesis, FloatArray, float]:
    """Return the contrasts, their values in the functional's own unit, and the critical value of a larger family."""
    if hypothesis is not None:
        return *free_contrasts(estimates, hypothesis), 0.0
    ranking, one_each = ranking_of(estimates, "sensitivity"), np.eye(len(estimates.names))
    neighbours = free_contrasts(estimates, one_each[ranking[:-1]] - one_each[ranking[1:]])
    # Bounds are not of all looks.
    assert isinstance(simultaneous, MaxT)
    return *neighbours, simultaneous.critical_of_pairs(estimates.alpha)


def ranking_of(estimates: Estimates, method: str) -> IntArray:
    """Return the places of the models, the best first, from which a method takes its default hypotheses."""
    if not estimates.of_models:
        raise OptionError(
            f"{method}() of a functional whose outputs are not scores of models needs a hypothesis about these "
            f"outputs, such as {estimates.names[0]!r}"
        )
    return np.argsort(-estimates.merit, kind="stable")


def free_contrasts(estimates: Estimates, hypothesis: HypothesisLike) -> tuple[LinearHypothesis, FloatArray]:
    """Return contrasts with their values in the functional's own unit; raise where the functional fixes one."""
    contrasts, scale = read_hypothesis(hypothesis, estimates.names), estimates.scale
    matrix = contrasts.matrix
    error = np.sqrt(np.square(matrix @ estimates.covariance.factor).sum(axis=1))
    largest = max(estimates.covariance.std_errors.max(), 1e-300)
    is_fixed = error <= _FIXED * largest * np.abs(matrix).max(axis=1)
    if is_fixed.any():
        label = contrasts.labels[int(np.flatnonzero(is_fixed)[0])]
        raise HypothesisError(
            f"{label} has the same value whatever the data are ({estimates.reason}); give a contrast that can vary, "
            f"such as the difference of two models"
        )
    return contrasts, (contrasts.value - scale.shift * matrix.sum(axis=1)) / scale.factor
