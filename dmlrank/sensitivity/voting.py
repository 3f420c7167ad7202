"""The voting stage of a fit: shown battles, vote rates, and influence blocks for battles without a vote."""

from __future__ import annotations

import numpy as np

from ..data.formula.parse import parse_formula
from ..data.preferences import FloatArray, IntArray
from ..data.shown_battles import ShownBattles, read_shown_battles
from ..estimation.voting_stage import ShownRows, VotingStage
from ..exceptions import OptionError
from ..fit.first_stages import Draw, PropensityModel, RepetitionSeed, label_and_judge_propensities
from ..fit.state import FitSteps, Repetition
from ..nuisance.propensity_model.vote_rates import (
    PropensitiesAsVoteRates,
    estimate_vote_rates,
    shown_data,
)


def shown_battles_of(steps: FitSteps) -> ShownBattles:
    """Return the battles that were shown, voted or not."""
    formula = parse_formula(steps.source.formula)
    return read_shown_battles(steps.data, formula.first, formula.second)


def voting_stage(steps: FitSteps, repetition: Repetition, number: int, battles: ShownBattles) -> VotingStage:
    """Return the voting stage of one repetition."""
    return _estimated(steps, repetition, number, battles) if battles.n_unvoted else _all_shown(steps, repetition)


def _all_shown(steps: FitSteps, repetition: Repetition) -> VotingStage:
    """Return the voting stage where every pair of every context counts as shown."""
    pairs = repetition.propensity.pairs
    if pairs is None:
        raise OptionError(
            "sensitivity needs to know how often battles get no vote. These data have no shown battles without a vote "
            "(rows with two models and a missing winner), and the propensities are given for the labelled pairs alone; "
            "add the shown battles without a vote, or give propensities of all pairs, or use propensity='estimate'"
        )
    rates = PropensitiesAsVoteRates(pairs)
    return VotingStage(
        rates=rates,
        cell_rate=np.minimum(repetition.propensity.cells, 1.0),
        shown=None,
        block_context=steps.blocks.context,
        block_weight=steps.blocks.weight,
        annotator=steps.annotator,
        shares_rates=rates.is_constant,
    )


def _estimated(steps: FitSteps, repetition: Repetition, number: int, battles: ShownBattles) -> VotingStage:
    """Return the voting stage with estimated probabilities of showing a pair and of voting."""
    data, options, seed = steps.data, steps.options, RepetitionSeed(steps.options.seed, number)
    model = PropensityModel.of(options, steps.setup.graph, steps.source, needs_all_propensities=False)
    seeds = seed.child(Draw.VOTE_RATES).spawn(repetition.folds.n_folds)
    rates = estimate_vote_rates(data, battles, repetition.folds, seeds, tune=model.tune, n_jobs=options.n_jobs)
    is_marginal = model.word == "marginal"
    shown_model = model._replace(propensity="marginal" if is_marginal else "estimate", column=None)
    shown = shown_data(data, battles)
    propensity = label_and_judge_propensities(
        shown, repetition.folds, shown_model, verdicts=None, seed=seed, n_jobs=options.n_jobs
    )[0]
    cells, cell = battles.cells(data.n_items, data.n_categories)
    block_context, block_weight, annotator, block = _blocks(steps, battles)
    rate = rates.at(cells.context, cells.first, cells.second)[cell]
    return VotingStage(
        rates=rates,
        cell_rate=rates.at(data.cells.context, data.cells.first, data.cells.second),
        shown=ShownRows(
            context=battles.context,
            block=block,
            first=battles.first,
            second=battles.second,
            rate=rate,
            residual=(battles.voted - rate) * battles.share / propensity.cells[cell],
            mu=repetition.mu.at(cells)[cell],
        ),
        block_context=block_context,
        block_weight=block_weight,
        annotator=annotator,
    )


def _blocks(steps: FitSteps, battles: ShownBattles) -> tuple[IntArray, FloatArray, IntArray | None, IntArray]:
    """Return the influence blocks of the fit, followed by blocks for battles that belong to no block of the fit.

    Shapes: context (q,), weight (q,), annotator (q,), block (b,).
    """
    blocks, clusters = steps.blocks, steps.clusters
    if steps.annotator is None or clusters is None:
        block = blocks.context_block[battles.context]
        return blocks.context, _sums(battles.share, block, len(blocks.context)), None, block
    of_row = steps.data.columns.sorted_codes(clusters.names[-1])[battles.row]
    known = np.stack([blocks.context, steps.annotator], axis=1)
    _, first, place = np.unique(
        np.concatenate([known, np.stack([battles.context, of_row], axis=1)]),
        axis=0,
        return_index=True,
        return_inverse=True,
    )
    place = place.reshape(-1)
    # Blocks of the fit keep their numbers; contexts and annotators that the fit has no block for get further numbers.
    is_new = first >= len(known)
    number = np.empty(len(first), dtype=np.intp)
    number[place[: len(known)]] = np.arange(len(known))
    number[is_new] = len(known) + np.arange(int(is_new.sum()))
    block, new_row = number[place[len(known) :]], first[is_new] - len(known)
    context = np.concatenate([blocks.context, battles.context[new_row]])
    annotator = np.concatenate([steps.annotator, of_row[new_row]])
    return context, _sums(battles.share, block, len(context)), annotator, block


def _sums(amounts: FloatArray, group: IntArray, n_groups: int) -> FloatArray:
    """Add up amounts, (b,), by group, (n_groups,)."""
    total: FloatArray = np.bincount(group, amounts, n_groups).astype(float)
    return total
