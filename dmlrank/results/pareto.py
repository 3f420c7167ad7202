"""Score against cost: which models are shown to be dominated, which to be on the front, and which are open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy.linalg import block_diag

from .._utils.argument_checks import check_type, real_number
from .._utils.computation import collected_warnings, one_thread, warn
from ..data.arrays import BoolArray, FloatArray
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
from ..plotting.front_chart import front_chart
from ..report.fit_summary import rows_to_show, score_digits
from ..report.statements import counted, first_of, functional_unit
from ..report.words import score_head
from ..tables.display_text import decimals, fixed_text
from ..tables.summary_table import Summary
from .context_variables import values_of_runs
from .requirements import ModelTable, require_steps

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Names of models in a sentence, and models of which a page's picture has all names.
_NAMED, _ALL_NAMED = 3, 15
# Statuses as a page says them.
_STATUS = {"front": "best at its cost", "open": "not decided", "dominated": "worse and not cheaper"}


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Pareto(ModelTable):
    """Scores against costs with statuses that hold together; :meth:`RankResults.pareto` returns this class.

    Model k dominates model j if its score is larger and its cost smaller (where costs are known: not larger). With
    probability ``1 - alpha`` no status is wrong. All statuses follow from the frame ``tests``, whose intervals hold
    simultaneously.

    Attributes
    ----------
    table : DataFrame
        A row per model, the cheapest first: ``model``, ``score``, ``cost``, ``status``, ``dominated_by``, the names of
        the models that are shown to dominate it, and ``sentence``, the status in words. ``score_low``, ``score_high``,
        ``cost_low`` and ``cost_high`` are simultaneous intervals of all scores and costs. The status is

        - ``"dominated"``: some model is shown to be better in both,
        - ``"front"``: against every other model the score is shown to be better, or the cost smaller,
        - ``"open"``: neither is shown.
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
            rows.append((str(name), *cells, row["status"]))
        columns = ((self.cost, 1), ("[interval]", 2), (functional_unit(e), 1), ("[interval]", 2), ("status", 1))
        notes = (*frame["sentence"], self.sentence(), note)
        return Summary("Score against Cost", (), columns, tuple(rows), tuple(filter(None, notes)), text_columns=(7,))

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
        from ..report.page.svg import interval_text, number_text, scatter_svg

        factor, parts = shown.scale.factor / self.estimates.scale.factor, ["", "_low", "_high"]
        digits = (cost_digits(self.table), score_digits(shown))
        costs, scores = (self.table[[f"{of}{end}" for end in parts]].to_numpy().T for of in ("cost", "score"))
        rows = []
        for j, (name, status, sentence) in enumerate(self.table[["model", "status", "sentence"]].to_numpy()):
            texts = []
            for (x, low, high), places in zip((costs[:, j], factor * scores[:, j]), digits, strict=True):
                texts += [number_text(x, places), *([interval_text(low, high, places)] if np.isfinite(low) else [])]
            rows.append((name, *texts, _STATUS[status], sentence.removeprefix(f"{name}: ")))
        ends = [(f"{100 * (1 - self.alpha):g} % interval", 1)]
        of_cost = ends * bool(np.isfinite(costs[1]).all())
        columns = ((self.cost, 1), *of_cost, (score_head(shown), 1), *ends, ("status", 1), ("what is shown", 1))
        table = Summary("Score against cost", (), columns, tuple(rows), (), text_columns=())
        picture = scatter_svg(
            self.models,
            list(self.table["status"]),
            costs,
            factor * scores,
            named=len(rows) <= _ALL_NAMED,
            label=f"Scores over costs of {len(rows)} models; the table below has the numbers.",
        )
        return (
            f"Score against cost: {score_head(shown)} over {self.cost}",
            picture,
            table,
            self.sentence().partition(". ")[2],
        )

    def is_of(self, estimates: Estimates) -> bool:
        """Return whether the analysis has the scores of these estimates, in their unit."""
        own = self.estimates
        return own.models == estimates.models and bool(np.array_equal(own.estimate, estimates.estimate))

    @property
    def _counts(self) -> str:
        """How many models have each status; that of a model not on the front may be unknown."""
        counts = self.table["status"].value_counts()
        shown = [f"{status} {counts.get(status, 0)}" for status in ("front", "open", "dominated")]
        return f"shown on the {', '.join(shown)}"

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
    n_models = len(e.models)
    covariance, values, doubt, name = e.covariance, e.estimate, "", cost if isinstance(cost, str) else "cost"
    if isinstance(cost, str):
        costs, of_costs, covariance, doubt = _random_costs(e, require_steps(e, state, "pareto() with a column"), cost)
    else:
        costs, of_costs = _known_costs(e.models, cost), None
    # In units of the scores' errors, so that both parts of the joint covariance have one size.
    size, (first, second) = 1.0, np.triu_indices(n_models, 1)
    if of_costs is not None:
        sizes = np.median(of_costs), np.median(e.covariance.std_errors)
        size = float(sizes[0] / sizes[1]) if min(sizes) > 0 else 1.0
        scale = np.repeat([1.0, 1 / size], n_models)
        covariance = replace(covariance.of_combinations(np.diag(scale)), basis=covariance.basis)
        values = np.concatenate([values, costs / size])
        first, second = (np.concatenate([places, places + n_models]) for places in (first, second))
    covariance = covariance if e.sequence is None else covariance.normal
    simultaneous = MaxT(covariance, e.description.seed) if e.sequence is None else AllLooks(covariance, e.sequence)
    method = simultaneous.adjustment("max-t")
    tests = compare_differences(values, simultaneous, first, second, method=method, alpha=alpha)
    dominates, is_ahead, is_cheaper = _statuses(tests, costs, e.sign, are_random=of_costs is not None)
    rivals = [[e.models[k] for k in np.flatnonzero(by)] for by in dominates.T]
    low, high = covariance.law(values, covariance.std_errors).limits(simultaneous.critical(alpha))
    of_cost = (np.full(n_models, np.nan),) * 2 if of_costs is None else (low[n_models:] * size, high[n_models:] * size)
    table = pd.DataFrame(
        {
            "model": e.models,
            "score": e.estimate,
            "cost": costs,
            "status": np.where(dominates.any(axis=0), "dominated", np.where(is_ahead.all(axis=1), "front", "open")),
            "dominated_by": list(map(", ".join, rivals)),
            "score_low": low[:n_models],
            "score_high": high[:n_models],
            "cost_low": of_cost[0],
            "cost_high": of_cost[1],
        }
    )
    table["sentence"] = [_sentence(e.models, j, rivals[j], is_ahead[j], is_cheaper[:, j]) for j in range(n_models)]
    order = np.lexsort((-e.merit, costs))
    is_cost, names = tests.first >= n_models, np.array(e.models, dtype=object)
    factor = np.where(is_cost, size, 1.0)
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
    name = f"{name}{f' ({unit})' if unit else ''}{'' if of_costs is None else ' per prompt'}"
    return Pareto(table.iloc[order].reset_index(drop=True), frame, name, alpha, e, doubt)


def _sentence(models: Sequence[str], j: int, by: list[str], is_ahead: BoolArray, is_cheaper: BoolArray) -> str:
    """Return the status of model j in words; ``is_cheaper``, (K,): which others are known or shown to cost less."""
    if by:
        dearer = "dearer" if all(is_cheaper[models.index(k)] for k in by) else "not cheaper"
        return f"{models[j]}: {dearer} than {first_of(by, _NAMED, ', ')} and shown to be worse."
    if is_ahead.all():
        return f"{models[j]}: every other model is shown to be worse or is dearer."
    parts = []
    neither = "neither shown to be better nor cheaper"
    for which, said in ((is_cheaper, "dearer and not shown to be better"), (~is_cheaper, neither)):
        if others := [name for name, is_one in zip(models, which & ~is_ahead, strict=True) if is_one]:
            parts.append(f"{said} than {first_of(others, _NAMED, ', ')}")
    return f"{models[j]}: {'; '.join(parts)}."


def _statuses(tests: PairTests, costs: FloatArray, sign: int, are_random: bool) -> tuple[BoolArray, ...]:
    """Return whether model k is shown to dominate j, to be better or cheaper, and to be cheaper, (K, K), at [k, j].

    Known costs are compared as they are.
    """
    n_models = len(costs)
    above = np.zeros((2 * n_models, 2 * n_models), dtype=bool)
    above[tests.first, tests.second] = tests.conf_low > 0
    above[tests.second, tests.first] = tests.conf_high < 0
    is_better, is_cheaper = above[:n_models, :n_models], above[n_models:, n_models:].T
    is_better, not_dearer = is_better if sign > 0 else is_better.T, is_cheaper
    if not are_random:
        is_cheaper, not_dearer = costs[:, None] < costs, costs[:, None] <= costs
    return is_better & not_dearer, is_better | is_cheaper | np.eye(n_models, dtype=bool), is_cheaper


def _known_costs(models: Sequence[str], cost: Any) -> FloatArray:
    """Return the costs that a user gives by model, (K,)."""
    given = cost.to_dict() if isinstance(cost, pd.Series) else cost
    allowed = "a column of the table of scores, or a number for each model as a dictionary or Series"
    check_type("cost", given, Mapping, allowed)
    missing: list[object] = [name for name in models if name not in given]
    if missing := missing or [name for name in given if name not in models]:
        what = "has numbers for others:" if missing[0] in given else "has no number for"
        raise OptionError(f"cost= {what} {listed(missing)}; give one for each of the models: {listed(models, 25)}")
    numbers = [real_number(given[name]) for name in models]
    wrong = [name for name, number in zip(models, numbers, strict=True) if number is None or not np.isfinite(number)]
    if wrong:
        raise OptionError(f"cost= of {wrong[0]!r} is {shown(given[wrong[0]])}; a cost is a finite number")
    return np.array(numbers, dtype=float)


def _random_costs(e: Estimates, state: FitState, column: str) -> tuple[FloatArray, FloatArray | None, Covariance, str]:
    """Return mean costs, their standard errors, (K,) each, the joint covariance with scores, (2 K, 2 K), and a doubt.

    Costs are known, with None in place of errors, where each model costs the same on all prompts, or the prompts of the
    fit are all there are.
    """
    units, of_context = state.units, None if state.units.clusters is None else state.units.clusters.of_context
    advice = f"for votes, give a number for each model: pareto({{'{e.models[0]}': 0.5, ...}})"
    values = values_of_runs(state, e.models, column, advice)
    n_missing = np.isnan(values).sum(axis=0)
    if n_missing[j := int(n_missing.argmax())]:
        raise MissingDataError(
            f"column {column!r} has no value for {e.models[j]!r} on {n_missing[j]:,} of {len(values):,} prompts; "
            f"every model needs a cost on every prompt: fit with missing='common', or give a number for each model"
        )
    n = len(values)
    influence = Influence(values, np.zeros_like(values), np.arange(n), np.ones(n), state.influence.weight)
    if state.options.prompts == "fixed" or (values == values[0]).all():
        return influence.estimate, None, e.covariance, ""
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
    if doubt := _doubt_of_skew(cluster_sums(parts[1], of_context)[0]):
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
