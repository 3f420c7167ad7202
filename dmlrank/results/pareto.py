"""Score against cost: which models are shown to be best at their cost, or worse and not cheaper than others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from .._utils.argument_checks import check_type, real_number
from .._utils.tasks_and_threads import one_thread
from ..data.arrays import FloatArray
from ..exceptions import OptionError, listed, shown
from ..fit.estimates import Estimates
from ..fit.state import FitState
from ..functionals import PassAtK
from ..inference.bootstrap_and_max_t import differences
from ..inference.simultaneous import AllLooks, MaxT, compare_differences
from ..plotting.charts import BEST, STATUSES, UNDECIDED, WORSE, front_chart
from ..report.fact_words import score_head
from ..report.fit_summary import rows_to_show, score_digits
from ..report.phrases import counted, functional_unit
from ..tables.summary_table import Summary, decimals, fixed_text
from .requirements import ModelTable, require_steps
from .run_table import random_costs

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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
        # Of costs two figures of the smallest error, or four of the smallest cost.
        error, cost = (frame["cost_high"] - frame["cost_low"]).to_numpy() / 4, frame["cost"].to_numpy()
        of_cost = decimals(error if (error > 0).any() else np.abs(cost) / 100, fewest=0)
        digits = {"cost": of_cost, "score": score_digits(e)}
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
        return Summary("Score against Cost", (), columns, tuple(rows), (self.sentence(), note), text_columns=(7, 8))

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
