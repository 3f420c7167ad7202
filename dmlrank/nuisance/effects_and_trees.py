"""Learners with two stages: smooth effects of items, then boosted trees that start from the effects' scores.

The held-out log-loss selects the penalty of the effects, how trees are boosted, and the number of rounds. Where the
cells are many, a sample and one fold select, and every fold is then fitted with the selected settings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, TypeVar

import lightgbm as lgb
import numpy as np

from .._utils.computation import Threads, current, in_workers, report
from .boosting.parameters import Parameter, fixed_parameters
from .boosting.train import split_jobs, thread_count
from .boosting.tuning import EXHAUSTIVE_THRESHOLDS, MAX_ROUNDS, PATIENCE, RANDOM_THRESHOLDS, WARM_UP
from .smooth.penalty import SELECTION_SAMPLE, Effects, FoldEffects, TunedEffects, selection_cells
from .training_rows import FoldCells

E = TypeVar("E", bound=Effects)

# Number of entries of a training matrix from which on LightGBM computes histograms by column.
_BY_COLUMN_FROM = 100_000_000


@dataclass(frozen=True, slots=True, eq=False)
class BoostingStage:
    """How the booster is trained, which is the second stage.

    parameters: The parameters of LightGBM that were selected.
    mirrored: True if the booster is trained on every vote in both display orders, False if in the recorded order alone.
    rounds: Number of rounds; zero where trees do not lower the held-out log-loss.
    """

    parameters: Mapping[str, Parameter]
    mirrored: bool = False
    rounds: int = 0


class TreeRows(Protocol[E]):
    """Rows of all cells in bins, from which the trees learn."""

    def size(self, cells: FoldCells, stage: BoostingStage) -> int:
        """Return the number of entries of the matrix with the rows of some cells."""
        ...

    def weight(self, held_out: FoldCells) -> float:
        """Return the total weight of the rows of held-out cells."""
        ...

    def dataset(self, fitted: FoldEffects[E], cells: FoldCells, stage: BoostingStage, n_threads: int) -> lgb.Dataset:
        """Return the rows of some cells, with the scores of the effects as initial scores."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Selection(Generic[E]):
    """The settings that the held-out log-loss selects.

    tuned: Effects of the trial folds, with the selected penalty.
    stage: How to boost.
    boosters: The boosters of the trial folds; none where trees do not lower the loss.
    state_of_rng: State of the learner's generator after the selection; None for a learner that draws nothing.
    """

    tuned: TunedEffects[E]
    stage: BoostingStage
    boosters: list[lgb.Booster]
    state_of_rng: Mapping[str, Any] | None


class EffectsAndTrees(Generic[E]):
    """A learner with two stages, for all folds; a subclass says what the effects and the rows of the trees are.

    name: What tasks and reports call the learner.
    n_classes: Number of categories; None where the trees predict one log-odds.
    candidates: How boosting is tried.
    gives_up: Whether no further candidate is tried where the first one does not lower the loss.
    cells: All cells, those with soft labels included.
    sample: The cells on which settings are selected: ``cells`` itself, or a sample.
    trial_folds: The folds whose held-out log-loss is compared.
    seeds: Seeds of LightGBM, one per fold.
    """

    name: str
    n_classes: int | None = None
    candidates: Sequence[BoostingStage] = (BoostingStage(RANDOM_THRESHOLDS), BoostingStage(EXHAUSTIVE_THRESHOLDS))
    gives_up = False
    state_of_rng: Mapping[str, Any] | None = None

    def __init__(
        self, cells: FoldCells, rngs: Sequence[np.random.Generator], selection_sample: int = SELECTION_SAMPLE
    ) -> None:
        self.cells = cells
        self.sample, self.trial_folds = selection_cells(cells, len(rngs), rngs[0], sample_size=selection_sample)
        self.seeds = [int(rng.integers(2**31 - 1)) for rng in rngs]
        self._rows: TreeRows[E] | None = None

    def select_effects(self) -> TunedEffects[E]:
        """Select the penalty of the effects, and fit them in the trial folds."""
        raise NotImplementedError

    def fit_effects(self, f: int, tuned: TunedEffects[E]) -> FoldEffects[E]:
        """Fit the effects of one fold with the selected penalty."""
        raise NotImplementedError

    def loss_without_trees(self, rows: TreeRows[E], tuned: TunedEffects[E]) -> float:
        """Return the held-out log-loss of the effects on the rows of the trees."""
        raise NotImplementedError

    def make_rows(self, tuned: TunedEffects[E]) -> TreeRows[E]:
        """Return the rows from which the trees learn."""
        raise NotImplementedError

    def rows(self, tuned: TunedEffects[E]) -> TreeRows[E]:
        """Return the rows from which the trees learn, made once in a process."""
        if self._rows is None:
            self._rows = self.make_rows(tuned)
        return self._rows

    def __getstate__(self) -> dict[str, object]:
        # LightGBM's data sets cannot be pickled; another process computes the bins itself.
        return self.__dict__ | {"_rows": None}

    def fit(self) -> tuple[Selection[E], Iterator[tuple[FoldEffects[E], lgb.Booster | None]]]:
        """Return the selected settings, and the effects and the booster of every fold; no booster without trees."""
        name, n_folds = self.name, len(self.seeds)
        (selection,) = in_workers(_select, self, [0], name=f"settings of {name}", in_turn=True)
        if current().workers:
            report(1, 1, f"{name.removeprefix('the ')}, settings")
        if self.sample is self.cells:
            return selection, zip(selection.tuned.fits, selection.boosters or [None] * n_folds, strict=True)
        return selection, in_workers(
            _fit_fold, (self, selection), range(n_folds), name=f"folds of {name}", in_turn=True
        )


def _select(learner: EffectsAndTrees[E], _: int) -> Selection[E]:
    """Select the penalty of the effects and how to boost."""
    tuned = learner.select_effects()
    rows, fits = learner.rows(tuned), tuned.fits
    loss, best, selected = learner.loss_without_trees(rows, tuned), None, learner.candidates[0]
    candidates = learner.candidates if all(len(fitted.training.rows) for fitted in fits) else ()
    for n_tried, stage in enumerate(candidates, start=1):
        size = rows.size(fits[0].training, stage)
        n_boosters, n_jobs = split_jobs(size, len(fits))
        n_threads = thread_count(size, n_jobs)
        trials = []
        for fitted, seed in zip(fits, learner.seeds, strict=False):
            training = rows.dataset(fitted, fitted.training, stage, n_threads)
            # The contexts of a fold may all be without labels; then the fold does not count in the selection.
            held_out = rows.dataset(fitted, fitted.held_out, stage, n_threads) if len(fitted.held_out.rows) else None
            parameters = booster_parameters(learner.n_classes, stage.parameters, seed, n_threads)
            trials.append(TrialFold.of(parameters, training, held_out, rows.weight(fitted.held_out)))
        path = boost_together(trials, loss, n_boosters, best)
        if best is None or path.loss < best.loss:
            selected, best = stage, path
        report(n_tried, len(candidates), "boosting, configurations", minor=True)
        if learner.gives_up and not best.rounds:
            break
    n_rounds, boosters = 0, list[lgb.Booster]()
    if best is not None:
        best.keep_best_rounds()
        n_rounds, boosters = best.rounds, best.boosters if best.rounds else []
    return Selection(tuned, replace(selected, rounds=n_rounds), boosters, learner.state_of_rng)


def _fit_fold(shared: tuple[EffectsAndTrees[E], Selection[E]], f: int) -> tuple[FoldEffects[E], lgb.Booster | None]:
    """Fit effects and booster of one fold with the selected settings."""
    learner, selection = shared
    stage, fitted = selection.stage, learner.fit_effects(f, selection.tuned)
    if not stage.rounds:
        return fitted.without_cells(), None
    rows = learner.rows(selection.tuned)
    size = rows.size(fitted.training, stage)
    n_threads = thread_count(size, current().n_jobs)
    training = rows.dataset(fitted, fitted.training, stage, n_threads)
    parameters = booster_parameters(learner.n_classes, stage.parameters, learner.seeds[f], n_threads, size=size)
    return fitted.without_cells(), lgb.train(parameters, training, num_boost_round=stage.rounds)


# --- boosting of all trial folds together -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class TrialFold:
    """The booster of a fold, whose held-out cells help to select the number of rounds.

    booster: The held-out cells are its only validation set.
    weight: Total weight of the held-out cells; zero where there are none.
    """

    booster: lgb.Booster
    weight: float

    @classmethod
    def of(
        cls, parameters: Mapping[str, Parameter], training: lgb.Dataset, held_out: lgb.Dataset | None, weight: float
    ) -> TrialFold:
        """Create a booster without trees."""
        booster = lgb.Booster(dict(parameters), training)
        if held_out is not None:
            booster.add_valid(held_out, "held out")
        return cls(booster, weight)


@dataclass(frozen=True, slots=True, eq=False)
class BoostingPath:
    """The boosters of the trial folds, with their held-out log-loss by round.

    boosters: One per trial fold.
    losses: Held-out log-loss, summed over the folds, after 0, 1, 2, ... rounds.
    iterations: Iterations of each booster after 0, 1, 2, ... rounds. A round in which no split is possible adds none.
    """

    boosters: list[lgb.Booster]
    losses: list[float]
    iterations: list[tuple[int, ...]]

    @property
    def loss(self) -> float:
        """The smallest loss."""
        return min(self.losses)

    @property
    def rounds(self) -> int:
        """The first number of rounds with the smallest loss."""
        return int(np.argmin(self.losses))

    def should_stop(self, best: BoostingPath | None, max_rounds: int) -> bool:
        """Return whether boosting ends: after enough rounds, without progress, or behind the best configuration."""
        n_rounds = len(self.losses) - 1
        stale = n_rounds - self.rounds >= (PATIENCE if self.rounds else WARM_UP)
        behind = (
            best is not None
            and WARM_UP <= n_rounds < len(best.losses)
            and self.losses[n_rounds] > best.losses[n_rounds]
        )
        return n_rounds >= max_rounds or stale or behind

    def keep_best_rounds(self) -> None:
        """Remove the trees of all rounds after the best one from the boosters, and release their data."""
        for booster, n_iterations in zip(self.boosters, self.iterations[self.rounds], strict=True):
            _remove_later_rounds(booster, n_iterations)
            booster.free_dataset()


def _remove_later_rounds(booster: lgb.Booster, n_iterations: int) -> None:
    """Remove the trees of all iterations after the given number of them."""
    while (current := booster.current_iteration()) > n_iterations:
        booster.rollback_one_iter()
        if booster.current_iteration() == current:
            # LightGBM does not remove the trees of a first iteration without a split, which have one leaf each.
            for tree in range(booster.num_trees()):
                booster.set_leaf_output(tree, 0, 0.0)
            return


def booster_parameters(
    n_classes: int | None, configuration: Mapping[str, Parameter], seed: int, n_threads: int, *, size: int = 0
) -> dict[str, Parameter]:
    """Return the parameters of a booster that starts from given scores and whose log-loss is computed every round."""
    metric = "binary_logloss" if n_classes is None else "multi_logloss"
    fixed = fixed_parameters(n_classes, seed, n_threads)
    # Histograms by row need a second copy of the bins. Histograms by column have the same bits.
    by_column = size >= _BY_COLUMN_FROM
    layout: dict[str, Parameter] = {"force_row_wise": False, "force_col_wise": True} if by_column else {}
    return {**fixed, **layout, "metric": metric, "boost_from_average": False, **configuration}


def boost_together(
    folds: Sequence[TrialFold],
    loss_without_trees: float,
    workers: int,
    best: BoostingPath | None,
    *,
    max_rounds: int = MAX_ROUNDS,
) -> BoostingPath:
    """Boost on all trial folds, round by round, until further rounds do not promise a smaller held-out log-loss."""
    path = BoostingPath([fold.booster for fold in folds], [loss_without_trees], [(0,) * len(folds)])

    def boost_one_round(fold: TrialFold) -> tuple[float, int]:
        fold.booster.update()
        loss = float(fold.weight * fold.booster.eval_valid()[0][2]) if fold.weight else 0.0
        return loss, fold.booster.current_iteration()

    with Threads(workers) as threads:
        while not path.should_stop(best, max_rounds):
            losses, iterations = zip(*threads.in_order(boost_one_round, folds), strict=True)
            path.losses.append(sum(losses))
            path.iterations.append(iterations)
    return path
