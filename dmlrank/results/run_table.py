"""Runs and their costs: curves of pass@k and pass^k, costs per success, score against cost; sizes that leads need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy.linalg import block_diag

from .._utils.argument_checks import check_type, check_whole, number_in, place_of, real_number
from .._utils.tasks_and_threads import collected_warnings, one_thread, warn
from ..data.arrays import FloatArray
from ..data.derived_pairs import DerivedPairs, Runs
from ..data.frames import column_names, require_columns, take_columns
from ..data.pairs_from_scores import further_runs
from ..estimation.influence import Influence
from ..estimation.joint_influence import side_by_side
from ..exceptions import DataError, IntervalWarning, MissingDataError, OptionError, check_choice, listed, shown
from ..fit.direct_fits import limits_of_means, variance_from_runs
from ..fit.estimates import Estimates
from ..fit.estimators import MEANS
from ..fit.fit_covariance import clustered_covariance, covariance_of, make_covariance
from ..fit.linear_map import in_unit
from ..fit.state import FitState
from ..functionals import PassAtK, PassHatK
from ..inference.bootstrap_and_max_t import differences
from ..inference.covariance import Covariance, cluster_sums, match_blocks
from ..inference.ranks import multiple_needed, smallest_gap
from ..inference.score_limits import UNBOUNDED, CombinedMeans
from ..inference.simultaneous import AllLooks, MaxT, compare_differences
from ..planning.criteria import check_positive
from ..plotting.charts import BEST, STATUSES, UNDECIDED, WORSE, front_chart
from ..report.fact_words import score_head
from ..report.first_place import independent_units
from ..report.fit_summary import rows_to_show, score_digits
from ..report.phrases import SummaryLevel, counted, functional_unit
from ..tables.summary_table import Summary, decimals, fixed_text
from .context_variables import context_table
from .requirements import ModelTable, require_steps

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@one_thread()
def table_of_curve(e: Estimates, state: FitState, kind: str | None, most: int | None, alpha: float) -> pd.DataFrame:
    """Return pass@k or pass^k of all models over k with joint limits, see :meth:`RankResults.curve`."""
    options, source, kinds = state.options, state.source.data, {"pass@k": PassAtK, "pass^k": PassHatK}
    kind = "pass^k" if kind is None and isinstance(options.functional, PassHatK) else kind or "pass@k"
    check_choice(kind, kinds, "kind")
    assert isinstance(source, DerivedPairs)
    if e.sign < 0:
        raise OptionError("curve() counts runs that succeed, and lower_is_better=True says that a score is a failure")
    if state.data.scores is None or np.isnan(state.data.scores.mean).any():
        raise MissingDataError(f"curve(): runs are missing, and missing={options.missing!r} does not say what they are")
    source = source if isinstance(options.missing, str) else source.filled(float(options.missing))
    is_used = np.zeros(len(source.values), dtype=bool)
    is_used[state.data.row_index[state.data.first_row]] = True
    source = source.with_enough(options.pairs.min_votes).only(is_used)
    runs = source.score_table.n_runs
    if most is None and (few := int((runs < runs.max()).any(axis=1).sum())):
        warn(
            f"curve() ends at k={runs.min()}: {few:,} of {len(runs):,} prompts have fewer than {runs.max()} runs of a "
            f"model, and {runs.min()} at least; missing=0.0 counts lost runs as failures, and most= says how far to go"
        )
    most = int(runs.min()) if most is None else most
    check_whole("most", most, 1)
    scores = [kinds[kind](k, number=source.number).of_runs(source, False).values for k in range(1, most + 1)]
    values, n = np.stack(scores, axis=2).reshape(len(scores[0]), -1), state.data.n_contexts
    influence = Influence(values, np.zeros_like(values), np.arange(n), np.ones(n), state.influence.weight)
    covariance = make_covariance(influence, np.empty((0, values.shape[1])), state.units, fixed_prompts=False)
    cluster = None if state.units.clusters is None else state.units.clusters.of_context
    means = limits_of_means(influence, (0.0, 1.0), cluster, task=state.units.task)
    covariance = replace(covariance, means=CombinedMeans((means,), np.eye(values.shape[1])))
    critical = MaxT(covariance, e.description.seed).critical(alpha)
    low, high = covariance.law(influence.estimate).limits(critical)
    columns = {kind: e.scale.of(influence.estimate), "std_error": e.scale.factor * covariance.std_errors}
    columns |= {"lower": e.scale.of(np.maximum(low, 0.0)), "upper": e.scale.of(np.minimum(high, 1.0))}
    return pd.DataFrame(columns, pd.MultiIndex.from_product([e.models, range(1, most + 1)], names=["model", "k"]))


@one_thread()
def table_per_success(e: Estimates, steps: FitState, column: str, against: str | None, alpha: float) -> pd.DataFrame:
    """Return mean costs per unit of the mean score, or their ratios, see :meth:`RankResults.per_success`."""
    costs, n_models = costs_of_runs(steps, e.models, column), len(e.models)
    own = steps.influence.by_context()
    parts = (np.hstack([own.value, costs]), np.hstack([own.correction, np.zeros_like(costs)]))
    influence = Influence(*parts, np.arange(len(costs)), np.ones(len(costs)), steps.influence.weight)
    joint = make_covariance(influence, np.empty((0, 2 * n_models)), steps.units, fixed_prompts=False)
    score, cost = influence.estimate[:n_models], influence.estimate[n_models:]
    for means, what in ((score, "score"), *([] if against is None else [(cost, "cost")])):
        if (means <= 0).any():
            none = listed([name for name, value in zip(e.models, means, strict=True) if value <= 0])
            raise DataError(f"the mean {what} of {none} is not above 0, so that there is no ratio; leave it out")
    names, below, above, change = e.models, score, cost, np.eye(2 * n_models)
    if against is not None:
        # The ratio of two costs per success is that of two products, c_j s_0 / (s_j c_0).
        base, (of_score, of_cost) = place_of(e.models, against), (change[:n_models], change[n_models:])
        other = np.delete(np.arange(n_models), base)
        names = tuple(f"{e.models[j]} / {against}" for j in other)
        below, above = score[other] * cost[base], cost[other] * score[base]
        of_below = cost[base] * of_score[other] + np.outer(score[other], of_cost[base])
        change = np.vstack([of_below, score[base] * of_cost[other] + np.outer(cost[other], of_score[base])])
    ratio = above / below
    # The derivative of a / b is (da - r db) / b.
    slope = np.hstack([np.diag(-ratio / below), np.diag(1 / below)]) @ change
    of_ratios = joint.of_combinations(slope)
    critical = MaxT(of_ratios, e.description.seed).critical(alpha, "max-t")
    low, high = fieller_limits(below, above, change @ joint.matrix @ change.T, critical)
    of_context = None if steps.units.clusters is None else steps.units.clusters.of_context
    doubt_of_skew(cluster_sums(influence, of_context)[0] @ slope.T, "costs per success")
    # Costs that cannot be negative have no negative ratio.
    low = np.maximum(low, 0.0) if (costs >= 0).all() else low
    first = {"score": score, "cost": cost, "per_success": ratio} if against is None else {"ratio": ratio}
    limits = {"std_error": of_ratios.std_errors, "lower": low, "upper": high}
    return pd.DataFrame(first | limits, index=names)


def values_of_runs(state: FitState, models: Sequence[str], column: str) -> Runs:
    """Return a further column of a table of scores for the runs of some models on the prompts of the fit."""
    source = state.source.data
    if not isinstance(source, DerivedPairs) or source.rows is None:
        raise OptionError(
            f"{column!r} names a column by prompt and model, which a table of scores has; for votes, give a number for "
            f"each model: pareto({{'{models[0]}': 0.5, ...}})"
        )
    is_used = np.zeros(len(source.values), dtype=bool)
    is_used[state.data.row_index[state.data.first_row]] = True
    return further_runs(source, column).only(is_used).of_items(np.array([source.models.index(name) for name in models]))


def costs_of_runs(state: FitState, models: Sequence[str], column: str) -> FloatArray:
    """Return mean costs of the runs of a model on a prompt, (n, K); those of k runs where the score is that of k runs.

    Runs that failed or were lost count with what they cost. A run without a recorded cost is left out, which is said.
    """
    runs, functional = values_of_runs(state, models, column), state.options.functional
    costs, n_unknown = runs.table().mean, int(runs.n_missing.sum())
    n_missing = np.isnan(costs).sum(axis=0)
    if n_missing[j := int(n_missing.argmax())]:
        raise MissingDataError(
            f"column {column!r} has no value for {models[j]!r} on {n_missing[j]:,} of {len(costs):,} prompts; every "
            f"model needs a cost on every prompt: fit with missing='common', or give pareto() a number for each model"
        )
    if n_unknown:
        warn(
            f"{n_unknown:,} of {n_unknown + len(runs.value):,} runs have no {column}: mean costs are those of the runs "
            f"whose cost was recorded, also of failed and lost ones"
        )
    return costs * functional.k if isinstance(functional, PassAtK) else costs


def costs_in_column(state: FitState, models: Sequence[str], column: str, newdata: object) -> FloatArray:
    """Return the costs of a plan from a column: (n,) by prompt for votes, (n, K) by prompt and model for scores."""
    if state.estimator is not MEANS:
        if newdata is None:
            given = context_table(state, [column], "costs of a plan")[column]
        else:
            require_columns([column], column_names(newdata), "newdata")
            given = take_columns(newdata, [column])[column]
        costs = pd.to_numeric(given, errors="coerce").to_numpy(dtype=float)
        if np.isnan(costs).any():
            wrong = given[np.isnan(costs)].iloc[0]
            raise DataError(f"costs of a plan: column {column!r} holds {wrong!r}; every prompt needs a number")
        return np.asarray(costs)
    known = [name for name in models if name in state.data.items]
    values = np.full((state.data.n_contexts, len(models)), np.nan)
    values[:, : len(known)] = values_of_runs(state, known, column).table().mean
    is_there = np.isfinite(values)
    n_there = is_there.sum(axis=1, keepdims=True)
    total = np.where(is_there, values, 0.0).sum(axis=1, keepdims=True)
    if not n_there.all():
        raise MissingDataError(
            f"column {column!r} has no value on {int((n_there == 0).sum()):,} of {len(values):,} prompts; fill the gaps"
        )
    # A run without a cost has the mean of the others on the prompt, times the model's cost elsewhere relative to it.
    mean = total / n_there
    of_model = np.where(is_there, values, 0.0).sum(axis=0)
    elsewhere = (is_there * mean).sum(axis=0)
    ratio = np.divide(of_model, elsewhere, out=np.ones(len(models)), where=elsewhere > 0)
    return np.where(is_there, values, mean * ratio)


def random_costs(e: Estimates, state: FitState, column: str) -> tuple[FloatArray, float | None, Covariance, str]:
    """Return mean costs, (K,), their unit, the joint covariance with scores, (2 K, 2 K), in it, and a doubt.

    The unit is such that costs and scores have errors of one size. Costs are known, with None in its place, where each
    model costs the same on all prompts, or the prompts of the fit are all there are.
    """
    units, of_context = state.units, None if state.units.clusters is None else state.units.clusters.of_context
    values = costs_of_runs(state, e.models, column)
    n, weight = len(values), state.influence.weight
    if state.options.prompts == "fixed" or (values == values[0]).all():
        return weight @ values / weight.sum(), None, e.covariance, ""
    sizes = np.median(values.std(axis=0)) / np.sqrt(n), np.median(e.covariance.std_errors)
    size = float(sizes[0] / sizes[1]) if min(sizes) > 0 else 1.0
    values = values / size
    influence = Influence(values, np.zeros_like(values), np.arange(n), np.ones(n), weight)
    none = np.empty((0, values.shape[1]))
    with collected_warnings():
        # The fit has warned of few clusters already.
        of_costs = covariance_of(state, influence, none)
        parts = [state.influence.by_context(), influence]
        parts = parts if units.task is None else [part.within(units.task) for part in parts]
        gauge = block_diag(state.setup.functional.gauge(state.data.n_items).basis, none)
        rows = side_by_side([in_unit(parts[0], e.scale), parts[1]])
        joint = clustered_covariance(rows, gauge, units.clusters, None)
    matrix = match_blocks(joint.matrix, [e.covariance, of_costs])
    basis = np.asarray(block_diag(e.covariance.basis, of_costs.basis))
    means, df = e.covariance.means, min(e.covariance.df, joint.df)
    if means is not None:
        part = limits_of_means(influence, (float(values.min()), float(values.max())), of_context, task=units.task)
        unbounded = np.full(values.shape[1], UNBOUNDED)
        costs = CombinedMeans((replace(part, least=-unbounded, most=unbounded),), np.eye(values.shape[1]))
        # The unseen prompt has a cost of its own, whatever its score is.
        means = CombinedMeans.side_by_side([means, costs], [np.arange(int(part.n))] * 2)
    joint = replace(joint, matrix=matrix, basis=basis, note=e.covariance.note, df=df, means=means)
    sums = cluster_sums(parts[1], of_context)[0]
    gaps = np.hstack([sums[:, :j] - sums[:, [j]] for j in range(1, sums.shape[1])])
    return influence.estimate * size, size, joint, doubt_of_skew(gaps, "differences of costs")


def fieller_limits(
    below: FloatArray, above: FloatArray, matrix: FloatArray, critical: float
) -> tuple[FloatArray, FloatArray]:
    """Return the ratios r at which above - r below is within ``critical`` standard errors of zero, (J,) each.

    Where the denominator itself is that close to zero, no ratio is too large. Shapes: ``matrix`` of denominators and
    then numerators, (2 J, 2 J).
    """
    n, spread = len(below), critical**2 * matrix
    a, c = below**2 - np.diag(spread)[:n], above**2 - np.diag(spread)[n:]
    b = below * above - np.diag(spread[:n, n:])
    root = np.sqrt(np.maximum(b**2 - a * c, 0.0))
    is_bounded = a > 0
    with np.errstate(divide="ignore", invalid="ignore"):
        low = np.where(is_bounded | (c > 0), c / (b + root), 0.0)
        high = np.where(is_bounded, (b + root) / a, np.inf)
    return low, high


def doubt_of_skew(rows: FloatArray, what: str) -> str:
    """Say, with a warning, that costs are too skewed for so few units, from what each adds to J estimates, (g, J).

    A mean of n values of skewness s is nearly normal if n > 25 s^2 (Cochran 1977, section 2.15). Here s is the median
    of all estimates. With six models, log-normal costs and 25 to 300 prompts, some joint interval of differences at
    95 % missed in 3 to 7 % of 150 samples in settings most of whose samples meet this, and in 6 to 42 % in those where
    most do not.
    """
    second, third = ((rows**power).mean(axis=0) for power in (2, 3))
    varying = second > 0
    skewness = float(np.median(np.abs(third[varying]) / second[varying] ** 1.5)) if varying.any() else 0.0
    if len(rows) >= 25 * skewness**2:
        return ""
    doubt = (
        f"Intervals of costs are too narrow: the {what} have a skewness of {skewness:.1f} (median), for which "
        f"{len(rows):,} prompts or clusters are too few; about {float(f'{25 * skewness**2:.2g}'):,.6g} or more are "
        f"needed."
    )
    warn(doubt, kind=IntervalWarning)
    return doubt


def table_of_sizes(
    e: Estimates, steps: FitState | None, level: SummaryLevel, difference: float | None, power: float
) -> pd.DataFrame:
    """Return what the leads of the first model need, alone and all at once; see :meth:`RankResults.sample_size`."""
    first, alpha = level.first, level.alpha
    number_in("power", power, lambda x: alpha < x < 1, f"it must be a number between alpha={alpha:g} and 1")
    if first is None or e.description.prompts == "fixed":
        raise OptionError("sample_size() is about differences of models on further prompts, and this result has none")
    given = None if difference is None else np.full(len(first.others), check_positive(difference, "difference"))
    lead = first.difference if given is None else given
    unit, n_units = independent_units(e)
    errors, leader = first.std_error, e.models[first.leader]
    times = [multiple_needed(*pair, first.critical, power) for pair in zip(lead, errors, strict=True)]
    frame = pd.DataFrame(
        {
            "difference": lead,
            "std_error": errors,
            "smallest": [smallest_gap(error, first.critical, power) for error in errors],
            "times": times,
        },
        index=[f"{leader} - {e.models[k]}" for k in first.others],
    )
    frame.loc["first place"] = (np.nan, np.nan, np.nan, first.times_more(power, leads=given))
    wanted = frame["times"]
    named = {unit if " " not in unit else "clusters": n_units, f"{e.counts}s": e.description.n_votes}
    frame = frame.assign(**{name: np.ceil(wanted * number) for name, number in named.items()})
    scores = None if steps is None else steps.data.scores
    if steps is None or scores is None or np.isnan(scores.mean).any() or not np.isfinite(scores.variance).any():
        return frame
    # With R times the runs the variance is that of prompts and 1 / R of that of runs.
    rows = np.eye(len(e.models))[first.leader] - np.eye(len(e.models))[first.others]
    of_runs = np.append(np.minimum(variance_from_runs(steps, rows) * e.scale.factor**2, errors**2), np.nan)
    variance = np.append(errors**2, np.nan)
    share = np.divide(of_runs, variance, out=np.full(len(variance), np.nan), where=variance > 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        room = variance / wanted.to_numpy() - (variance - of_runs)
        further = np.where(room <= 0, np.inf, of_runs / room)
        least = np.maximum(np.ceil(n_units * wanted * (1 - share)), 1)
    return frame.assign(share_runs=share, times_runs=further, prompts_many_runs=least)


# Models of which a page's picture has all names.
_ALL_NAMED = 15


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Pareto(ModelTable):
    """Scores against costs with statuses that hold together; :meth:`RankResults.pareto` returns this class.

    Model k dominates model j if its score is larger and its cost smaller (where costs are known: not larger). Statuses
    follow from the simultaneous intervals of ``tests``: with probability ``1 - alpha`` none is wrong.

    Attributes
    ----------
    table : DataFrame
        A row per model, the cheapest first: ``model``, ``score``, ``cost``, ``status``, and ``dominated_by``, the
        models that are shown to dominate it, with the simultaneous intervals ``score_low score_high cost_low
        cost_high``. The status is

        - ``"worse and not cheaper"``: some model is shown to be better in both,
        - ``"best at its cost"``: against every other model the score is shown to be better, or the cost smaller,
        - ``"undecided at its cost"``: neither is shown.
    tests : DataFrame
        A row per pair of models and quantity (``score``, and ``cost`` where it is random) with the simultaneous
        interval of the difference ``first - second``.
    cost : str
        What the cost is, with its unit.
    alpha : float
        Probability that any status is wrong.
    doubt : str
        Why intervals of costs may be too narrow; may be empty.
    """

    table: pd.DataFrame
    tests: pd.DataFrame
    cost: str
    alpha: float
    estimates: Estimates
    doubt: str = ""

    @property
    def models(self) -> list[str]:
        """Names of the models, the cheapest first."""
        return list(self.table["model"])

    def _shown(self, models: Sequence[str] | None, top: int | None) -> tuple[pd.DataFrame, str]:
        """Return the rows of some models, and a note on the others."""
        which = rows_to_show(self.estimates, models, top)
        kept = [self.estimates.models[j] for j in which.places]
        kept = kept if models is not None else [name for name in self.models if name in set(kept)]
        return self.table.set_index("model", drop=False).loc[kept], which.note("Statuses and intervals")

    def _table(self, models: Sequence[str] | None, top: int | None) -> Summary:
        e, (frame, note) = self.estimates, self._shown(models, top)
        digits = {"cost": cost_digits(frame), "score": score_digits(e)}
        rows = []
        for name, row in frame.iterrows():
            numbers = [(row[f"{of}{end}"], places) for of, places in digits.items() for end in ("", "_low", "_high")]
            cells = [fixed_text(number, places) if np.isfinite(number) else "" for number, places in numbers]
            rows.append((str(name), *cells, row["status"], row["dominated_by"]))
        ends = f"[{100 * (1 - self.alpha):g}% simult. CI]"
        columns = (
            (self.cost, 1),
            (ends, 2),
            (functional_unit(e), 1),
            (ends, 2),
            ("status", 1),
            ("worse than", 1),
        )
        notes = tuple(filter(None, (self.sentence(), note)))
        return Summary("Score against Cost", (), columns, tuple(rows), notes, text_columns=(7, 8))

    def sentence(self) -> str:
        """Return what the statuses mean, and how sure they are, in words."""
        known = "Costs are taken as known." if "cost" not in set(self.tests["quantity"]) else self.doubt
        looks = "" if self.estimates.sequence is None else self.estimates.sequence.promise
        return (
            f"{self._counts[0].upper()}{self._counts[1:]}. With {100 * (1 - self.alpha):g} % confidence no status is "
            f"wrong: all differences of scores and costs are tested at once. {known} {looks}"
        ).strip()

    def plot(self, ax: Axes | None = None, *, models: Sequence[str] | None = None, top: int | None = None) -> Axes:
        """Draw scores over costs with their intervals, the three statuses by shape and colour; this needs matplotlib.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure otherwise.
        models : sequence of str, optional
            Models in the picture; all when None. Statuses are always those among all models.
        top : int, optional
            Number of the models with the highest scores in the picture.

        Returns
        -------
        matplotlib Axes
            The axes of the picture.
        """
        title = f"Score against cost, {100 * (1 - self.alpha):g} % simultaneous"
        return front_chart(self._shown(models, top)[0], self.cost, score_head(self.estimates), title, ax)

    def page_section(self, shown: Estimates) -> tuple[str, str, Summary, str]:
        """Return title, picture, table and note of the section in a page, with scores in the unit that is shown."""
        from ..report.render_page import scatter_svg

        factor, parts = shown.scale.factor / self.estimates.scale.factor, ["", "_low", "_high"]
        scaled = {f"score{end}": factor * self.table[f"score{end}"] for end in parts}
        own = replace(self, estimates=shown, table=self.table.assign(**scaled))
        costs, scores = (own.table[[f"{of}{end}" for end in parts]].to_numpy().T for of in ("cost", "score"))
        picture = scatter_svg(
            self.models,
            [status.split()[0] for status in self.table["status"]],
            costs,
            scores,
            named=len(self.models) <= _ALL_NAMED,
            label=f"Scores over costs of {len(self.models)} models; the table below has the numbers.",
        )
        title, text = f"Score against cost: {score_head(shown)} and {self.cost}", self.sentence().partition(". ")[2]
        return title, picture, replace(own.summary(), notes=()), text

    @property
    def _counts(self) -> str:
        """How many models have each status, which may be unknown."""
        counts = self.table["status"].value_counts()
        return ", ".join(f"{status} {counts.get(status, 0)}" for status in STATUSES[::-1])

    def __repr__(self) -> str:
        return f"<Pareto: {counted(len(self.table), 'model')}, {self._counts}>"


def cost_digits(table: pd.DataFrame) -> int:
    """Return the decimals of costs: two figures of the smallest error, or four of the smallest cost."""
    error = (table["cost_high"] - table["cost_low"]).to_numpy() / 4
    size = error[error > 0] if (error > 0).any() else np.abs(table["cost"].to_numpy()) / 100
    return decimals(size[size > 0], fewest=0) if (size > 0).any() else 0


@one_thread()
def score_against_cost(
    e: Estimates, state: FitState | None, cost: str | Mapping[str, float], unit: str, alpha: float
) -> Pareto:
    """Return the statuses of all models, see :meth:`RankResults.pareto`."""
    n_models, size, doubt, name = len(e.models), None, "", f"cost ({unit})" if unit else "cost"
    covariance, values, (first, second) = e.covariance, e.estimate, np.triu_indices(n_models, 1)
    if isinstance(cost, str):
        state = require_steps(e, state, "pareto() with a column")
        costs, size, covariance, doubt = random_costs(e, state, cost)
        of_runs = f" of {state.options.functional.k} runs" if isinstance(state.options.functional, PassAtK) else ""
        name = f"{cost}{name[4:]}" + f"{of_runs} per prompt" * (size is not None)
    else:
        costs = _known_costs(e.models, cost)
    if size is not None:
        values = np.concatenate([values, costs / size])
        first, second = (np.concatenate([places, places + n_models]) for places in (first, second))
    covariance = covariance if e.sequence is None else covariance.normal
    simultaneous = MaxT(covariance, e.description.seed) if e.sequence is None else AllLooks(covariance, e.sequence)
    method = simultaneous.adjustment("max-t")
    tests = compare_differences(values, simultaneous, first, second, method=method, alpha=alpha)
    # At [k, j]: whether model k is shown to be better than j, and to be cheaper.
    above = np.zeros((2 * n_models, 2 * n_models), dtype=bool)
    above[tests.first, tests.second], above[tests.second, tests.first] = tests.conf_low > 0, tests.conf_high < 0
    is_better, is_cheaper = above[:n_models, :n_models], above[n_models:, n_models:].T
    is_better, not_dearer = is_better if e.sign > 0 else is_better.T, is_cheaper
    if size is None:
        not_dearer, is_cheaper = costs[:, None] <= costs, costs[:, None] < costs
    dominates, is_ahead = is_better & not_dearer, is_better | is_cheaper | np.eye(n_models, dtype=bool)
    low, high = covariance.law(values).limits(simultaneous.critical(alpha))
    limits = {"score_low": low[:n_models], "score_high": high[:n_models], "cost_low": np.nan, "cost_high": np.nan}
    if size is not None:
        limits |= {"cost_low": low[n_models:] * size, "cost_high": high[n_models:] * size}
    status = np.where(dominates.any(axis=0), WORSE, np.where(is_ahead.all(axis=1), BEST, UNDECIDED))
    by = [", ".join(e.models[k] for k in np.flatnonzero(column)) for column in dominates.T]
    found = {"model": e.models, "score": e.estimate, "cost": costs, "status": status, "dominated_by": by}
    table = pd.DataFrame(found | limits).iloc[np.lexsort((-e.merit, costs))]
    is_cost, names = tests.first >= n_models, np.array(e.models, dtype=object)
    sides = {side: names[getattr(tests, side) % n_models] for side in ("first", "second")}
    factor, errors = np.where(is_cost, size or 1.0, 1.0), differences(covariance, tests.first, tests.second).std_error
    limits = {name: factor * getattr(tests, name) for name in ("conf_low", "conf_high")}
    numbers = {"estimate": factor * tests.estimate, "std_error": factor * errors, **limits}
    frame = pd.DataFrame({"quantity": np.where(is_cost, "cost", "score"), **sides, **numbers})
    return Pareto(table.reset_index(drop=True), frame, name, alpha, e, doubt)


def _known_costs(models: Sequence[str], cost: Any) -> FloatArray:
    """Return the costs that a user gives by model, (K,); those of further models are not used."""
    given = cost.to_dict() if isinstance(cost, pd.Series) else cost
    allowed = "a column of the table of scores, or a number for each model as a dictionary or Series"
    check_type("cost", given, Mapping, allowed)
    numbers = {name: real_number(given[name]) for name in models if name in given}
    if missing := [name for name in models if name not in numbers]:
        raise OptionError(f"cost= has no number for {listed(missing)}; give one for each of: {listed(models, 25)}")
    wrong = [name for name, number in numbers.items() if number is None or not np.isfinite(number)]
    if wrong:
        raise OptionError(f"cost= of {wrong[0]!r} is {shown(given[wrong[0]])}; a cost is a finite number")
    return np.array(list(numbers.values()), dtype=float)
