"""Score against cost: which models are shown to be dominated, which to be on the front, and which are open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.linalg import block_diag

from .._utils.argument_checks import check_type, real_number
from .._utils.computation import collected_warnings, one_thread, warn
from ..data.arrays import FloatArray
from ..estimation.influence import Influence
from ..estimation.joint_influence import side_by_side
from ..exceptions import IntervalWarning, MissingDataError, OptionError, listed, shown
from ..fit.direct_fits import limits_of_means
from ..fit.estimates import Estimates
from ..fit.fit_covariance import clustered_covariance, covariance_of
from ..fit.linear_map import in_unit
from ..fit.state import FitState
from ..inference.bootstrap_and_max_t import differences
from ..inference.covariance import Covariance, cluster_sums, match_blocks
from ..inference.score_limits import UNBOUNDED, CombinedMeans
from ..inference.simultaneous import AllLooks, MaxT, PairTests, compare_differences
from ..plotting.front_chart import STATUSES, front_chart
from ..report.fit_summary import rows_to_show, score_digits
from ..report.page.svg import front_svg
from ..report.statements import counted, first_of, functional_unit
from ..tables.display_text import decimals, fixed_text
from ..tables.summary_table import Summary
from .context_variables import values_of_runs
from .requirements import ModelTable, require_steps

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Names of dominating models in a cell of the printed table, and of models with a status on a page.
_NAMED, _ON_PAGE = 3, 25


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Pareto(ModelTable):
    """Scores against costs with statuses that hold together; :meth:`RankResults.pareto` returns this class.

    Model k dominates model j if its score is larger and its cost smaller (where costs are known: not larger). With
    probability ``1 - alpha`` no status is wrong. All statuses follow from the frame ``tests``, whose intervals hold
    simultaneously.

    Attributes
    ----------
    table : DataFrame
        A row per model, the cheapest first: ``model``, ``score``, ``cost``, ``status`` and ``dominated_by``, the names
        of the models that are shown to dominate it. ``score_low``, ``score_high``, ``cost_low`` and ``cost_high`` are
        simultaneous intervals of all scores and costs, which the picture shows. The status is

        - ``"dominated"``: some model is shown to be better in both,
        - ``"front"``: against every other model the score is shown to be better, or the cost smaller,
        - ``"open"``: neither is shown.
    tests : DataFrame
        A row per pair of models and quantity (``score``, and ``cost`` where it is random) with the simultaneous
        interval of the difference ``first - second``.
    cost : str
        What the cost is.
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

    def _table(self, models: Sequence[str] | None, top: int | None) -> Summary:
        e, frame = self.estimates, self.table
        which = rows_to_show(e, models, top)
        kept = [e.models[j] for j in which.places]
        if models is None:
            kept = [name for name in frame["model"] if name in set(kept)]
        frame = frame.set_index("model").loc[kept]
        digits = score_digits(e), cost_digits(frame)
        rows = []
        for name, row in frame.iterrows():
            cells = [
                fixed_text(row[column], places) if np.isfinite(row[column]) else ""
                for of, places in zip(("score", "cost"), digits, strict=True)
                for column in (of, f"{of}_low", f"{of}_high")
            ]
            by = row["dominated_by"].split(", ") if row["dominated_by"] else []
            rows.append((str(name), *cells, row["status"], first_of(by, _NAMED, ", ")))
        header = (
            ("Score:", functional_unit(e), "No. Prompts:", f"{e.description.n_contexts:,}"),
            ("Cost:", self.cost, "Models:", f"{len(self.table)}"),
        )
        columns = (("score", 1), ("[interval]", 2), ("cost", 1), ("[interval]", 2), ("status", 1), ("dominated by", 1))
        notes = (self.sentence(), which.note("Statuses and intervals"))
        said = tuple(filter(None, notes))
        return Summary("Score against Cost", header, columns, tuple(rows), said, text_columns=(7, 8))

    def sentence(self) -> str:
        """Return how many models have each status, and what the statuses mean, in words."""
        known = " Intervals hold for scores and costs at once, and are wider than those of scores alone."
        known = (
            f"{known} {self.doubt}".rstrip() if "cost" in set(self.tests["quantity"]) else " Costs are taken as known."
        )
        shown = (self.tests["conf_low"] > 0) | (self.tests["conf_high"] < 0)
        n_shown = shown.groupby(self.tests["quantity"]).sum().sort_index(ascending=False)
        differ = " and ".join(f"the {quantity} is shown to differ in {n}" for quantity, n in n_shown.items())
        of_pairs = counted(len(self.table) * (len(self.table) - 1) // 2, "pair")
        looks = "" if self.estimates.sequence is None else f" {self.estimates.sequence.promise}"
        return (
            f"{self._counts[0].upper()}{self._counts[1:]}. With {100 * (1 - self.alpha):g} % confidence no status is "
            f"wrong. Front: against every other model the score is shown to be better or the cost lower. Dominated: "
            f"some model is shown to have a better score at a lower cost. Open: neither is shown. Of {of_pairs} of "
            f"models {differ}.{known}{looks}"
        )

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
            The axes of the picture. Names that would cover others are left out, those of the front last.
        """
        kept = {self.estimates.models[j] for j in rows_to_show(self.estimates, models, top).places}
        frame = self.table[self.table["model"].isin(kept)]
        title = f"Score against cost, {100 * (1 - self.alpha):g} % simultaneous"
        return front_chart(frame, across=self._axis, up=f"score: {functional_unit(self.estimates)}", title=title, ax=ax)

    def page_section(self) -> tuple[str, str, tuple[str, ...]]:
        """Return title, picture and paragraphs of the section in a page, which :meth:`RankResults.report` writes."""
        frame, digits = self.table, (score_digits(self.estimates), cost_digits(self.table))
        unit = f"score: {functional_unit(self.estimates)}"
        heads = {"front": "Shown on the front", "open": "Open", "dominated": "Dominated"}
        by_status = []
        for status, head in heads.items():
            names = list(frame["model"][frame["status"] == status])
            by_status.append(f"{head}: {first_of(names, _ON_PAGE, ', ') or 'none'}.")
        picture = front_svg(frame, digits=digits, across=self._axis, up=unit)
        return "Score against cost", picture, (self.sentence(), *by_status)

    @property
    def _axis(self) -> str:
        """The label of the axis of costs."""
        return f"{self.cost}, mean over prompts" if "cost" in set(self.tests["quantity"]) else self.cost

    def is_of(self, estimates: Estimates) -> bool:
        """Return whether the analysis has the scores of these estimates, in their unit."""
        a, b = self.estimates, estimates
        return a.models == b.models and bool(np.array_equal(a.estimate, b.estimate))

    @property
    def _counts(self) -> str:
        """How many models have each status; that of a model not on the front may be unknown."""
        counts = self.table["status"].value_counts()
        heads = ("shown on the front" if status == "front" else status for status in STATUSES)
        return ", ".join(f"{head} {counts.get(status, 0)}" for head, status in zip(heads, STATUSES, strict=True))

    def __repr__(self) -> str:
        return f"<Pareto: {counted(len(self.table), 'model')}, {self._counts}>"


def cost_digits(table: pd.DataFrame) -> int:
    """Return the decimals of costs: two figures of the smallest error, or four of the smallest cost."""
    error = (table["cost_high"] - table["cost_low"]).to_numpy() / 4
    size = error[error > 0] if (error > 0).any() else np.abs(table["cost"].to_numpy()) / 100
    return decimals(size[size > 0], fewest=0) if (size > 0).any() else 0


@one_thread()
def score_against_cost(e: Estimates, steps: FitState | None, cost: str | Mapping[str, float], alpha: float) -> Pareto:
    """Return the statuses of all models, see :meth:`RankResults.pareto`."""
    n_models = len(e.models)
    covariance, values, doubt, name = e.covariance, e.estimate, "", cost if isinstance(cost, str) else "cost"
    if isinstance(cost, str):
        costs, of_costs, covariance, doubt = _random_costs(e, require_steps(e, steps, "pareto() with a column"), cost)
    else:
        costs, of_costs = _known_costs(e.models, cost), None
    # In units of the scores' errors, so that both parts of the joint covariance have one size.
    unit, (first, second) = 1.0, np.triu_indices(n_models, 1)
    if of_costs is not None:
        sizes = np.median(of_costs), np.median(e.covariance.std_errors)
        unit = float(sizes[0] / sizes[1]) if min(sizes) > 0 else 1.0
        scale = np.repeat([1.0, 1 / unit], n_models)
        covariance = replace(covariance.of_combinations(np.diag(scale)), basis=covariance.basis)
        values = np.concatenate([values, costs / unit])
        first, second = (np.concatenate([places, places + n_models]) for places in (first, second))
    covariance = covariance if e.sequence is None else covariance.normal
    simultaneous = MaxT(covariance, e.description.seed) if e.sequence is None else AllLooks(covariance, e.sequence)
    method = simultaneous.adjustment("max-t")
    tests = compare_differences(values, simultaneous, first, second, method=method, alpha=alpha)
    dominates, is_front = _statuses(tests, costs, e.sign, are_random=of_costs is not None)
    low, high = covariance.law(values, covariance.std_errors).limits(simultaneous.critical(alpha))
    of_cost = (np.full(n_models, np.nan),) * 2 if of_costs is None else (low[n_models:] * unit, high[n_models:] * unit)
    table = pd.DataFrame(
        {
            "model": e.models,
            "score": e.estimate,
            "cost": costs,
            "status": np.where(dominates.any(axis=0), "dominated", np.where(is_front, "front", "open")),
            "dominated_by": [", ".join(e.models[k] for k in np.flatnonzero(by)) for by in dominates.T],
            "score_low": low[:n_models],
            "score_high": high[:n_models],
            "cost_low": of_cost[0],
            "cost_high": of_cost[1],
        }
    )
    order = np.lexsort((-e.merit, costs))
    is_cost = tests.first >= n_models
    factor, names = np.where(is_cost, unit, 1.0), np.array(e.models, dtype=object)
    frame = pd.DataFrame(
        {
            "quantity": np.where(is_cost, "cost", "score"),
            "first": names[tests.first % n_models],
            "second": names[tests.second % n_models],
            "estimate": tests.estimate * factor,
            "std_error": differences(covariance, tests.first, tests.second).std_error * factor,
            "conf_low": tests.conf_low * factor,
            "conf_high": tests.conf_high * factor,
        }
    )
    return Pareto(table.iloc[order].reset_index(drop=True), frame, name, alpha, e, doubt)


def _statuses(
    tests: PairTests, costs: FloatArray, sign: int, are_random: bool
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return whether model k is shown to dominate j, (K, K), at [k, j], and which models are on the front, (K,).

    Known costs are compared as they are.
    """
    n_models = len(costs)
    above = np.zeros((2 * n_models, 2 * n_models), dtype=bool)
    above[tests.first, tests.second] = tests.conf_low > 0
    above[tests.second, tests.first] = tests.conf_high < 0
    score_larger, cost_smaller = above[:n_models, :n_models], above[n_models:, n_models:].T
    score_larger = score_larger if sign > 0 else score_larger.T
    cost_not_larger = cost_smaller
    if not are_random:
        cost_smaller, cost_not_larger = (less(costs[:, None], costs) for less in (np.less, np.less_equal))
    is_ahead = score_larger | cost_smaller | np.eye(n_models, dtype=bool)
    return score_larger & cost_not_larger, np.asarray(is_ahead.all(axis=1))


def _known_costs(models: Sequence[str], cost: Any) -> FloatArray:
    """Return the costs that a user gives by model, (K,)."""
    given = cost.to_dict() if isinstance(cost, pd.Series) else cost
    allowed = "a column of the table of scores, or a number for each model as a dictionary or Series"
    check_type("cost", given, Mapping, allowed)
    missing, unknown = [name for name in models if name not in given], [name for name in given if name not in models]
    if missing or unknown:
        what = f"has no number for {listed(missing)}" if missing else f"has {listed(unknown)}, which were not ranked"
        raise OptionError(f"cost= {what}; give one number for each of the {len(models)} models: {listed(models, 25)}")
    numbers = [real_number(given[name]) for name in models]
    wrong = [name for name, number in zip(models, numbers, strict=True) if number is None or not np.isfinite(number)]
    if wrong:
        raise OptionError(f"cost= of {wrong[0]!r} is {shown(given[wrong[0]])}; a cost is a finite number")
    return np.array(numbers, dtype=float)


def _random_costs(e: Estimates, steps: FitState, column: str) -> tuple[FloatArray, FloatArray | None, Covariance, str]:
    """Return mean costs, their standard errors, (K,) each, the joint covariance with scores, (2 K, 2 K), and a doubt.

    Costs are known, with None in place of errors, where each model costs the same on all prompts, or the prompts of the
    fit are all there are.
    """
    data, units = steps.data, steps.units
    advice = f"for votes, give a number for each model: pareto({{'{e.models[0]}': 0.5, ...}})"
    values = values_of_runs(steps, e.models, column, advice)
    n_missing = np.isnan(values).sum(axis=0)
    if n_missing.any():
        j = int(n_missing.argmax())
        raise MissingDataError(
            f"column {column!r} has no value for {e.models[j]!r} on {n_missing[j]:,} of {len(values):,} prompts; "
            f"every model needs a cost on every prompt: fit with missing='common', or give a number for each model"
        )
    n = len(values)
    influence = Influence(values, np.zeros_like(values), np.arange(n), np.ones(n), steps.influence.weight)
    if steps.options.prompts == "fixed" or (values == values[0]).all():
        return influence.estimate, None, e.covariance, ""
    none = np.empty((0, values.shape[1]))
    with collected_warnings():
        # The fit has warned of few clusters already.
        of_costs = covariance_of(steps, influence, none)
        parts = [steps.influence.by_context(), influence]
        parts = parts if units.task is None else [part.within(units.task) for part in parts]
        joint = clustered_covariance(
            side_by_side([in_unit(parts[0], e.scale), parts[1]]),
            block_diag(steps.setup.functional.gauge(data.n_items).basis, none),
            units.clusters,
            None,
        )
    matrix = match_blocks(joint.matrix, [e.covariance, of_costs])
    basis = np.asarray(block_diag(e.covariance.basis, of_costs.basis))
    means, df = e.covariance.means, min(e.covariance.df, joint.df)
    if means is not None:
        cluster = None if units.clusters is None else units.clusters.of_context
        part = limits_of_means(influence, (float(values.min()), float(values.max())), cluster, task=units.task)
        unbounded = np.full(values.shape[1], UNBOUNDED)
        costs = CombinedMeans((replace(part, least=-unbounded, most=unbounded),), np.eye(values.shape[1]))
        means = CombinedMeans.side_by_side([means, costs], [np.arange(int(part.n))] * 2)
    joint = replace(joint, matrix=matrix, basis=basis, note=e.covariance.note, df=df, means=means)
    doubt = _doubt_of_skew(cluster_sums(parts[1], None if units.clusters is None else units.clusters.of_context)[0])
    if doubt:
        warn(doubt, kind=IntervalWarning)
    return influence.estimate, of_costs.std_errors, joint, doubt


def _doubt_of_skew(rows: FloatArray) -> str:
    """Say that costs are too skewed for so few units, from the contribution of each unit to each mean, (g, K).

    A mean of n values of skewness s is nearly normal if n > 25 s^2 (Cochran 1977, section 2.15). Here s is the median
    of all differences. With six models, log-normal costs and 25 to 300 prompts, some joint interval at 95 % missed in 3
    to 7 % of 150 samples in settings most of whose samples meet this, and in 6 to 42 % in those where most do not.
    """
    gaps = (rows[:, :j] - rows[:, [j]] for j in range(1, rows.shape[1]))
    moments = np.concatenate([[(gap**power).mean(axis=0) for power in (2, 3)] for gap in gaps], axis=1)
    varying = moments[:, moments[0] > 0]
    skewness = float(np.median(np.abs(varying[1]) / varying[0] ** 1.5)) if varying.size else 0.0
    if len(rows) >= 25 * skewness**2:
        return ""
    return (
        f"Intervals of costs are too narrow: the differences of costs have a skewness of {skewness:.1f} (median), for "
        f"which {len(rows):,} prompts or clusters are too few; about {float(f'{25 * skewness**2:.2g}'):,.6g} or more "
        f"are needed."
    )
