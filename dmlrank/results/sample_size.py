"""How many prompts, runs or votes a difference needs, and which difference the data can see."""

from __future__ import annotations

import numpy as np
import pandas as pd

from .._utils.argument_checks import number_in
from ..exceptions import OptionError
from ..fit.direct_fits import variance_from_runs
from ..fit.estimates import Estimates
from ..fit.state import FitState
from ..inference.ranks import multiple_needed, smallest_gap
from ..planning.criteria import check_positive
from ..report.first_place import independent_units
from ..report.phrases import SummaryLevel


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
