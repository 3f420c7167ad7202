"""Learners with two stages: smooth effects of items, then boosted trees that start from the effects' scores.

The held-out log-loss selects the penalty of the effects, how trees are boosted, and the number of rounds. Where the
cells are many, a sample and one fold select, and every fold is then fitted with the selected settings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from .._utils.tasks_and_threads import Threads, current, in_workers, report, trim_memory
from ..data.preferences import FloatArray, IntArray
from .boosting import (
    EXHAUSTIVE_THRESHOLDS,
    MAX_ROUNDS,
    PATIENCE,
    RANDOM_THRESHOLDS,
    WARM_UP,
    Parameter,
    fixed_parameters,
    split_jobs,
    thread_count,
)
from .smooth import PenalisedLikelihood, PenalisedSearch, SmoothBasis
from .training_rows import FoldCells, LabelledRows

if TYPE_CHECKING:
    import lightgbm as lgb


# With more labelled cells than this number, hyperparameters are selected on a sample of this size with one trial fold.
SELECTION_SAMPLE = 20_000
# Number of features that get curves where there are too many features for all of them to have curves.
SCREENED = 8
# After this number of steps, the search with a new ridge stops for good if its held-out loss is not below that of the
# best ridge so far.
_STEPS_BEFORE_CHECK = 8
# Number of entries of a training matrix from which on LightGBM computes histograms by column.
_BY_COLUMN_FROM = 100_000_000


# --- smooth effects ---------------------------------------------------------------------------------------------------


class Effects(Protocol):
    """Effects of items, as curves of the context features, on labels or on the choice of the pair that is shown."""

    @property
    def importance(self) -> FloatArray:
        """Importance of each smooth column, (q,): larger where the column changes the predictions more."""
        ...

    def loss(self, rows: LabelledRows) -> float:
        """Return the log-loss of the rows."""
        ...


E = TypeVar("E", bound=Effects)


class FoldEffects(NamedTuple, Generic[E]):
    """Effects of one fold, the cells that they were fitted to, and the cells of the fold, which were held out.

    flat (d,): The coefficients of the effects in one vector, where a later search can begin.
    """

    training: FoldCells
    held_out: FoldCells
    effects: E
    flat: FloatArray


class TunedEffects(NamedTuple, Generic[E]):
    """Effects that were fitted for each trial fold with the selected ridge.

    A trial fold is a fold whose held-out log-loss is compared between the candidates, here the ridges.

    loss: Log-loss on the held-out cells of all trial folds.
    ridge: The selected prior precision of the coefficients; infinite where all effects are zero.
    screened: Whether only the most important features are used, as curves.
    start (d,): The coefficients of the first trial fold, where later searches can begin.
    fits: One per trial fold.
    prior: Of pairs that are shown, how strongly their overall shares are shrunk.
    """

    loss: float
    ridge: float
    screened: bool
    start: FloatArray
    fits: list[FoldEffects[E]]
    prior: float = float("nan")


class _Curves:
    """Curves of single features, (n, p), built when they are first needed and shared by all folds."""

    def __init__(self, x: FloatArray) -> None:
        self._x = x
        self._by_feature: dict[int, tuple[SmoothBasis, FloatArray]] = {}

    def of(self, features: IntArray) -> tuple[SmoothBasis, FloatArray]:
        """Return the basis of these features, and its columns in all contexts, (n, q)."""
        for f in features.tolist():
            if f not in self._by_feature:
                basis = SmoothBasis.learn(self._x, np.array([f]))
                self._by_feature[f] = basis, basis.of(self._x)
        bases, columns = zip(*(self._by_feature[f] for f in features.tolist()), strict=True)
        # The columns that indicate missing values come after the columns of all features.
        n_main = [table.shape[1] - len(basis.missing) for basis, table in zip(bases, columns, strict=True)]
        main = [table[:, :n] for table, n in zip(columns, n_main, strict=True)]
        flags = [table[:, n:] for table, n in zip(columns, n_main, strict=True)]
        return SmoothBasis.joined(bases), np.concatenate([*main, *flags], axis=1)

    def of_important_features(self, fitted: FoldEffects[E]) -> tuple[FoldCells, FoldCells]:
        """Return a fold's training and held-out cells with curves of the features that matter most in their effects."""
        straight = fitted.training.basis.straight
        leading = np.argsort(-fitted.effects.importance[: len(straight)], kind="stable")[:SCREENED]
        basis, table = self.of(np.sort(straight[leading]))
        training, held_out = (
            replace(cells, basis=basis, rows=replace(cells.rows, table=table))
            for cells in (fitted.training, fitted.held_out)
        )
        return training, held_out


def selection_cells(cells: FoldCells, n_folds: int, rng: np.random.Generator) -> tuple[FoldCells, range]:
    """Return the cells on which hyperparameters are selected, and the trial folds, which are held out in turn.

    These are all cells and all folds. Where the cells are many, they are a random sample of the cells, with the same
    share of the soft-label cells of each fold, and the first fold.
    """
    if len(cells.rows) <= SELECTION_SAMPLE:
        return cells, range(n_folds)

    def drawn(cells: FoldCells, size: int) -> FoldCells:
        return cells.only(np.sort(rng.choice(len(cells.rows), size, replace=False)))

    share = SELECTION_SAMPLE / len(cells.rows)
    soft = tuple(drawn(of_fold, int(share * len(of_fold.rows))) for of_fold in cells.soft)
    return replace(drawn(cells, SELECTION_SAMPLE), soft=soft), range(1)


# --- trees ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class BoostingStage:
    """How the booster is trained, which is the second stage; no rounds where trees do not lower the held-out loss.

    mirrored: Whether the booster is trained on every vote in both display orders, or in the recorded order alone.
    """

    parameters: Mapping[str, Parameter]
    mirrored: bool = False
    rounds: int = 0


class TreeRows(Protocol[E]):
    """Rows of all cells in bins, from which the trees learn."""

    def loss_without_trees(self, tuned: TunedEffects[E]) -> float:
        """Return the held-out log-loss of the effects on these rows."""
        ...

    def dataset(self, effects: E, cells: FoldCells, stage: BoostingStage, n_threads: int) -> lgb.Dataset:
        """Return the rows of some cells, with the scores of the effects as initial scores."""
        ...


class Selection(NamedTuple, Generic[E]):
    """The settings that the held-out log-loss selects.

    tuned, boosters: Of the trial folds; no boosters where trees do not lower the loss.
    state_of_rng: State of the learner's generator after the selection; None for a learner that draws nothing.
    """

    tuned: TunedEffects[E]
    stage: BoostingStage
    boosters: list[lgb.Booster]
    state_of_rng: Mapping[str, Any] | None


# The basis and the effects of a fold, and its booster, if it has one.
FittedFold = tuple[SmoothBasis, E, "lgb.Booster | None"]


class EffectsAndTrees(Generic[E]):
    """A learner with two stages, for all folds; a subclass says what the effects and the rows of the trees are.

    name, effects_name: What tasks and reports call the learner, and its effects.
    ridges: Prior precisions of the curves' coefficients that are tried, in decreasing order.
    n_classes: Number of categories; None where the trees predict one log-odds.
    candidates: How boosting is tried.
    gives_up: Whether no further candidate is tried where the first one does not lower the loss.
    rows_per_vote: Number of rows of the trees for each vote, in one display order.
    cells: All cells, those with soft labels included.
    sample, trial_folds: The cells and the folds by which settings are selected; ``sample`` may be ``cells`` itself.
    seeds: Seeds of LightGBM, one per fold.
    """

    name: str
    effects_name: str
    ridges: Sequence[float]
    n_classes: int | None = None
    candidates: Sequence[BoostingStage] = (BoostingStage(RANDOM_THRESHOLDS), BoostingStage(EXHAUSTIVE_THRESHOLDS))
    gives_up = False
    rows_per_vote = 1
    state_of_rng: Mapping[str, Any] | None = None

    def __init__(self, cells: FoldCells, rngs: Sequence[np.random.Generator]) -> None:
        self.cells = cells
        self.sample, self.trial_folds = selection_cells(cells, len(rngs), rngs[0])
        self.seeds = [int(rng.integers(2**31 - 1)) for rng in rngs]
        self._rows: TreeRows[E] | None = None

    def likelihood(self, training: FoldCells, prior: float) -> PenalisedLikelihood[E]:
        """Return the likelihood of training cells; ``prior`` is that of :class:`TunedEffects`."""
        raise NotImplementedError

    def select_effects(self) -> TunedEffects[E]:
        """Select the penalty of the effects, and fit them in the trial folds."""
        return self.select_smooth_effects(float("nan"))

    def select_smooth_effects(self, prior: float) -> TunedEffects[E]:
        """Return the effects of the trial folds with the smallest held-out log-loss.

        Where there are too many features for all of them to have curves, two models are compared. The first has a
        straight line of every feature. The second has curves of the features that are most important in the first one,
        and leaves the other features out. These features are chosen within every training set.
        """
        best = self.select_ridge([self.sample.split(f) for f in self.trial_folds], prior, screened=False)
        if not len(self.sample.basis.straight):
            return best
        curves = _Curves(self.sample.x)
        splits = [curves.of_important_features(fitted) for fitted in best.fits]
        return min(best, self.select_ridge(splits, prior, screened=True), key=lambda tuned: tuned.loss)

    def select_ridge(
        self, splits: Sequence[tuple[FoldCells, FoldCells]], prior: float, *, screened: bool
    ) -> TunedEffects[E]:
        """Return the effects with the ridge that has the smallest held-out log-loss."""
        best: TunedEffects[E] | None = None
        likelihoods = [self.likelihood(training, prior) for training, _ in splits]
        starts: list[FloatArray | None] = [None] * len(splits)
        for n_tried, ridge in enumerate(self.ridges, start=1):
            searches = [PenalisedSearch(of, ridge, start) for of, start in zip(likelihoods, starts, strict=True)]
            for n_steps in [_STEPS_BEFORE_CHECK, None] if best else [None]:
                for search in searches:
                    search.advance(n_steps)
                fits = [
                    FoldEffects(training, held_out, likelihood.effects(search.flat), search.flat)
                    for (training, held_out), likelihood, search in zip(splits, likelihoods, searches, strict=True)
                ]
                loss = sum(fitted.effects.loss(fitted.held_out.rows) for fitted in fits)
                if best and loss >= best.loss:
                    break
            starts = [fitted.flat for fitted in fits]
            report(n_tried, len(self.ridges), f"{self.effects_name}, ridges", minor=True)
            if best and loss >= best.loss:
                break
            best = TunedEffects(loss, ridge, screened, fits[0].flat, fits, prior)
        assert best is not None
        return best

    def fit_effects(self, f: int, tuned: TunedEffects[E]) -> FoldEffects[E]:
        """Fit the effects of one fold with the selected penalty."""

        def fit_split(training: FoldCells, held_out: FoldCells) -> FoldEffects[E]:
            likelihood = self.likelihood(training, tuned.prior)
            flat = likelihood.fit(tuned.ridge, None if tuned.screened else tuned.start)
            return FoldEffects(training, held_out, likelihood.effects(flat), flat)

        fitted = fit_split(*self.cells.split(f))
        return fit_split(*_Curves(self.cells.x).of_important_features(fitted)) if tuned.screened else fitted

    def make_rows(self, tuned: TunedEffects[E]) -> TreeRows[E]:
        """Return the rows from which the trees learn."""
        raise NotImplementedError

    def rows(self, tuned: TunedEffects[E]) -> TreeRows[E]:
        """Return the rows from which the trees learn, made once in a process."""
        if self._rows is None:
            self._rows = self.make_rows(tuned)
        return self._rows

    def size(self, cells: FoldCells, stage: BoostingStage) -> int:
        """Return the number of entries of the training matrix of some cells."""
        return len(cells.rows) * (cells.x.shape[1] + 2) * self.rows_per_vote * (2 if stage.mirrored else 1)

    def __getstate__(self) -> dict[str, object]:
        # LightGBM's data sets cannot be pickled; another process computes the bins itself.
        return self.__dict__ | {"_rows": None}

    def fit(self) -> tuple[Selection[E], Iterator[FittedFold[E]]]:
        """Return the selected settings, and what was fitted in every fold."""
        name, n_folds = self.name, len(self.seeds)
        (selection,) = in_workers(_select, self, [0], name=f"settings of {name}")
        if current().workers:
            report(1, 1, f"{name.removeprefix('the ')}, settings")
        if self.sample is self.cells:
            fits, boosters = selection.tuned.fits, selection.boosters or [None] * n_folds
            folds = ((fit.training.basis, fit.effects, booster) for fit, booster in zip(fits, boosters, strict=True))
            return selection, folds
        threads = split_jobs(self.size(self.cells, selection.stage), n_folds)
        folds_at_once = in_workers(
            _fit_fold, (self, selection), range(n_folds), name=f"folds of {name}", threads=threads
        )
        return selection, folds_at_once


def _select(learner: EffectsAndTrees[E], _: int) -> Selection[E]:
    """Select the penalty of the effects and how to boost."""
    import lightgbm as lgb

    tuned = learner.select_effects()
    rows, fits = learner.rows(tuned), tuned.fits
    loss, best, selected = rows.loss_without_trees(tuned), None, learner.candidates[0]
    candidates = learner.candidates if all(len(fitted.training.rows) for fitted in fits) else ()
    for n_tried, stage in enumerate(candidates, start=1):
        size = learner.size(fits[0].training, stage)
        n_boosters, n_jobs = split_jobs(size, len(fits))
        n_threads = thread_count(size, n_jobs)
        trials = []
        for fitted, seed in zip(fits, learner.seeds, strict=False):
            training = rows.dataset(fitted.effects, fitted.training, stage, n_threads)
            booster = lgb.Booster(booster_parameters(learner.n_classes, stage.parameters, seed, n_threads), training)
            # The contexts of a fold may all be without labels; then the fold does not count in the selection.
            if len(fitted.held_out.rows):
                booster.add_valid(rows.dataset(fitted.effects, fitted.held_out, stage, n_threads), "held out")
            trials.append((booster, learner.rows_per_vote * float(fitted.held_out.rows.weight.sum())))
        path = boost_together(trials, loss, n_boosters, best, n_threads)
        if best is None or path.loss < best.loss:
            selected, best = stage, path
        report(n_tried, len(candidates), "boosting, configurations", minor=True)
        if learner.gives_up and not best.rounds:
            break
    boosters: list[lgb.Booster] = []
    selected = replace(selected, rounds=best.rounds if best else 0)
    if best is not None and best.rounds:
        best.keep_best_rounds()
        boosters = best.boosters
    if learner.sample is not learner.cells:
        # Every fold is fitted again; cells and trial boosters are not sent to the workers that do it.
        tuned, boosters = tuned._replace(fits=[]), []
    return Selection(tuned, selected, boosters, learner.state_of_rng)


def _fit_fold(shared: tuple[EffectsAndTrees[E], Selection[E]], f: int) -> FittedFold[E]:
    """Fit effects and booster of one fold with the selected settings."""
    import lightgbm as lgb

    learner, selection = shared
    stage, fitted, booster = selection.stage, learner.fit_effects(f, selection.tuned), None
    basis, effects = fitted.training.basis, fitted.effects
    if stage.rounds:
        # All folds at the same time have to have the same number of threads.
        size = learner.size(learner.cells, stage)
        n_threads = thread_count(size, current().n_jobs)
        training = learner.rows(selection.tuned).dataset(fitted.effects, fitted.training, stage, n_threads)
        parameters = booster_parameters(learner.n_classes, stage.parameters, learner.seeds[f], n_threads, size=size)
        del fitted  # the largest arrays beside those of LightGBM
        trim_memory(len(learner.cells.rows))
        booster = lgb.train(parameters, training, num_boost_round=stage.rounds)
    return basis, effects, booster


# --- boosting of all trial folds together -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class BoostingPath:
    """The boosters of the trial folds, with their held-out log-loss, summed over folds, after 0, 1, 2, ... rounds.

    iterations: Iterations of each booster after as many rounds. A round in which no split is possible adds none.
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

    def keep_best_rounds(self) -> None:
        """Remove the trees of all rounds after the best one from the boosters, and release their data."""
        for booster, n_iterations in zip(self.boosters, self.iterations[self.rounds], strict=True):
            while (current := booster.current_iteration()) > n_iterations:
                booster.rollback_one_iter()
                if booster.current_iteration() == current:
                    # LightGBM does not remove the trees of a first iteration without a split, which have one leaf each.
                    for tree in range(booster.num_trees()):
                        booster.set_leaf_output(tree, 0, 0.0)
                    break
            booster.free_dataset()


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
    folds: Sequence[tuple[lgb.Booster, float]],
    loss_without_trees: float,
    workers: int,
    best: BoostingPath | None,
    n_threads: int = 1,
) -> BoostingPath:
    """Boost on all trial folds, round by round, until further rounds do not promise a smaller held-out log-loss.

    The held-out cells of a fold are the only validation set of its booster; beside it stands their total weight.
    """
    path = BoostingPath([booster for booster, _ in folds], [loss_without_trees], [(0,) * len(folds)])

    def boost_one_round(fold: tuple[lgb.Booster, float]) -> tuple[float, int]:
        booster, weight = fold
        booster.update()
        loss = float(weight * booster.eval_valid()[0][2]) if weight else 0.0
        return loss, booster.current_iteration()

    with Threads(workers, n_threads) as threads:
        for n_rounds in range(MAX_ROUNDS):
            stale = n_rounds - path.rounds >= (PATIENCE if path.rounds else WARM_UP)
            is_compared = best is not None and WARM_UP <= n_rounds < len(best.losses)
            if stale or (best is not None and is_compared and path.losses[n_rounds] > best.losses[n_rounds]):
                break
            losses, iterations = zip(*threads.in_order(boost_one_round, folds), strict=True)
            path.losses.append(sum(losses))
            path.iterations.append(iterations)
    return path
