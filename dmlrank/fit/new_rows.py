"""New rows of an extension: joined to the rows of a fit, read with the fit's features, matched with its contexts."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._utils.warning_collection import collected_warnings
from ..data.columns import Columns
from ..data.derived_pairs import DerivedPairs
from ..data.formula.parse import parse_formula
from ..data.frames import column_names
from ..data.further_rows import JoinedRows, join_rows
from ..data.learnt_features import LearntFeatures
from ..data.partitions import is_partitioned
from ..data.preferences import IntArray, PreferenceData
from ..exceptions import DataError, OptionError, listed
from ..nuisance.propensity_model.supplied import is_plan, propensity_columns
from ..nuisance.verdicts import are_of_fixed_prompts, judge_columns
from ..options import Options
from .inputs import ReadingOptions, columns_of_later_steps, read_source
from .state import FitSteps, Source


class NeedsTraining(Exception):
    """Raised where the first stages of a fit cannot be used for new rows; the message says why."""


class JoinedData(NamedTuple):
    """The votes of a fit and the new votes, read together.

    source: The frame of all rows.
    data: Votes on all items, with the two orders of a pair as two pairs. The features of the contexts of the fit are
        those of the fit, and those of new contexts come from the same transforms.
    place (n_old,): Number of each context of the fit among all contexts.
    """

    source: Source
    data: PreferenceData
    place: IntArray

    @property
    def is_new(self) -> NDArray[np.bool_]:
        """Whether a context is new, (n,)."""
        is_new = np.ones(self.data.n_contexts, dtype=bool)
        is_new[self.place] = False
        return is_new


def refuse_fixed_inputs(steps: FitSteps) -> None:
    """Raise where inputs of the fit exist for its own prompts alone, so that no fit of further rows is possible."""
    options, source = steps.options, steps.source
    if isinstance(source.data, DerivedPairs):
        raise OptionError(
            "extend() adds votes, and this fit was made from scores or rankings, in which nothing is learnt; put the "
            "new scores below the old ones and call pairs_from_scores() or pairs_from_rankings() and dml_rank() again"
        )
    if is_partitioned(source.data):
        raise OptionError(
            "extend() keeps all rows in memory, and this fit was made from parquet files or a Dask DataFrame, which "
            "may be larger; write the new rows to a further file, and fit all files"
        )
    arrays = [name for name in steps.data.feature_map.variables if name not in column_names(source.data)]
    if arrays:
        raise OptionError(
            f"extend() has no values of {arrays[0]!r} for the new rows: the formula takes {arrays[0]!r} from an array "
            f"with one entry for each row of the fit; put it into a column, fit, and extend"
        )
    fixed_inputs = {
        "mu": (options.mu is not None, "fit with learner= instead of mu="),
        "weights": (
            options.weights is not None and not isinstance(options.weights, str),
            "put the weights in a column",
        ),
        "propensity": (_is_array(options.propensity), "put the propensities in a column, or pass a function"),
        "judge": (are_of_fixed_prompts(options.judge), "put the verdicts in columns"),
    }
    for name, (is_fixed, advice) in fixed_inputs.items():
        if is_fixed:
            raise OptionError(
                f"extend() has no {name}= for the new prompts: {name}= was given for the prompts of the fit alone; "
                f"{advice}, fit, and extend; or fit all rows with a {name}= for all prompts"
            )


def _is_array(propensity: object) -> bool:
    """Return whether propensities are an array or a plan, which have values for the prompts of the fit alone."""
    return is_plan(propensity) or not (isinstance(propensity, str) or callable(propensity))


def join_to_fit(steps: FitSteps, new_rows: object) -> tuple[JoinedRows, Source]:
    """Return the rows of a fit followed by new rows, and the source of a fit of all rows."""
    source, options = steps.source, steps.options
    rows = join_rows(source.data, new_rows, _columns_needed(steps), options.context, already_read=_columns_read(steps))
    return rows, Source(source.formula, rows.table, source.environment)


def _columns_read(steps: FitSteps) -> Columns | None:
    """Return the columns that the fit has read from its frame; None where the fit has not kept every row."""
    data = steps.data
    keeps_all = len(data.row_index) == data.n_rows
    return data.columns if keeps_all and (data.row_index == np.arange(data.n_rows)).all() else None


def _columns_needed(steps: FitSteps) -> list[str]:
    """Return the columns of the frame that the fit uses."""
    options, available = steps.options, column_names(steps.source.data)
    formula = parse_formula(steps.source.formula)
    reading = ReadingOptions.of(options)
    judges = judge_columns(options.judge) or ()
    propensities = propensity_columns(options.propensity) or ()
    names = [
        *formula.outcomes,
        formula.first,
        formula.second,
        *steps.data.feature_map.variables,
        *reading.context,
        *reading.clusters,
        *reading.style,
        *(name for name in (reading.propensity, reading.weights) if name),
        *judges,
        *propensities,
    ]
    return [name for name in dict.fromkeys(names) if name in available]


def read_joined(steps: FitSteps, rows: JoinedRows, source: Source) -> JoinedData:
    """Read all rows with the features of the fit."""
    options, old = steps.options, steps.data
    columns, learnt = columns_of_later_steps(options), LearntFeatures.of(old)
    reading = ReadingOptions.of(options)
    try:
        data = read_source(source, reading, extra_columns=columns, learnt=learnt)
    except DataError as error:
        # If the rows themselves are the reason, the same error is raised where transforms are fitted to all rows.
        with collected_warnings():
            read_source(source, reading, extra_columns=columns)
        raise NeedsTraining(f"the features of the fit do not fit the new rows ({error})") from None
    return JoinedData(source, data, learnt.places(data))


def check_categories(old: PreferenceData, data: PreferenceData) -> None:
    """Raise :class:`NeedsTraining` where ranked votes have other categories than those of the fit."""
    if old.categories != data.categories:
        further = [name for name in data.categories if name not in old.categories]
        raise NeedsTraining(
            f"the new labels have the categories {listed(further)}, which no model has seen"
            if further
            else f"the categories of the labels are {listed(data.categories)} instead of {listed(old.categories)}"
        )


def why_options_need_training(options: Options) -> str:
    """Return why a fit with these options cannot be extended without training; an empty text where it can."""
    if options.adjust is not None:
        return "adjust= needs first stages for style, which have to be learnt from all votes together"
    if options.judge is not None and options.judge_as == "features":
        return "judge_as='features' makes verdicts features of mu, whose models then cannot predict new prompts"
    if options.propensity_formula is not None:
        return f"propensity={options.propensity!r} has features of its own, which are learnt from all prompts together"
    return ""
