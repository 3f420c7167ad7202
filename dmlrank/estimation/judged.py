"""Cross-fitting with a judge: m and mu from labels and verdicts, and what they add to the correction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ..data.preferences import Cells, FloatArray, PreferenceData
from ..nuisance.two_stage import Tilt, chosen_for_soft_labels, human_given_verdict, soft_labels
from ..nuisance.verdicts import Verdicts
from .crossfit import CrossFittedMu, Folds, MuSource
from .influence import Judged

_TINY = 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class JudgedMu:
    """First stages with a judge.

    Attributes
    ----------
    mu : MuSource
        mu(x) = E[m | x]; the one without judge where soft labels do not lower the log-loss of the labels.
    m : ndarray, shape (r, C)
        Out-of-fold P(Y | x, verdict) at the judged cells.
    helped : bool
        Whether verdicts tell anything of the labels.
    learnt : bool
        Whether mu learnt from them.
    """

    mu: MuSource
    m: FloatArray
    helped: bool
    learnt: bool


def cross_fit_judged(
    data: PreferenceData,
    verdicts: Verdicts,
    folds: Folds,
    alone: MuSource,
    refit: Callable[[Sequence[Cells]], CrossFittedMu] | None,
    rng: np.random.Generator,
) -> JudgedMu:
    """m and mu, from mu without a judge.

    First m is a tilt of the mu without judge. m of a fold, which saw no label in it, then gives soft labels to judged
    pairs without label outside that fold, and mu is fitted again to labels and soft labels: the second regression. It
    is kept if it predicts the held-out labels better. Last, m is made from the mu that is kept.

    Parameters
    ----------
    data : PreferenceData
    verdicts : Verdicts
    folds : Folds
    alone : MuSource
        mu fitted to the labels.
    refit : callable or None
        Fits mu with soft labels by fold; None where mu stays as it is.
    rng : Generator
        Chooses cells for soft labels where there are many.
    """
    given = human_given_verdict(data, verdicts, alone.at(verdicts.cells), folds.fold, folds.n_folds)
    tilts = [tilt for tilt in given.tilts if tilt is not None]
    kept = JudgedMu(alone, given.m, bool(tilts), False)
    if refit is None or not isinstance(alone, CrossFittedMu) or len(tilts) < folds.n_folds or verdicts.labelled.all():
        return kept
    mu = refit(_soft(data, verdicts, folds, alone, tilts, rng))
    if log_loss(mu.at(data.cells), data.cells) >= log_loss(alone.at(data.cells), data.cells):
        return kept
    given = human_given_verdict(data, verdicts, mu.at(verdicts.cells), folds.fold, folds.n_folds)
    return JudgedMu(mu, given.m, any(tilt is not None for tilt in given.tilts), True)


def _soft(
    data: PreferenceData,
    verdicts: Verdicts,
    folds: Folds,
    alone: CrossFittedMu,
    tilts: Sequence[Tilt],
    rng: np.random.Generator,
) -> list[Cells]:
    """Soft labels for the model of each fold, at judged cells outside the fold."""
    chosen = chosen_for_soft_labels(data, verdicts, rng)
    fold, soft = folds.fold[verdicts.cells.context[chosen]], []
    for held_out, (model, tilt) in enumerate(zip(alone.models, tilts, strict=True)):
        here = chosen[fold != held_out]
        cells = verdicts.cells
        base = model.at(data.x[cells.context[here]], cells.first[here], cells.second[here])
        soft.append(soft_labels(data, verdicts, tilt, here, base))
    return soft


def judged_term(verdicts: Verdicts, rho: FloatArray, m: FloatArray) -> Judged:
    """What the verdicts add to the correction.

    Each label weighs 1 / pi whether a judge saw its pair or not, so that the verdicts' term stands for the labelled
    pairs that were judged: it is multiplied by their share, which is one where all of them were.

    Parameters
    ----------
    verdicts : Verdicts
    rho : ndarray, shape (r,)
        P(judged | x) at the judged cells.
    m : ndarray, shape (r, C)
    """
    share = float((verdicts.label >= 0).mean())
    return Judged(verdicts.cells, share / rho, m, verdicts.label)


def log_loss(p: FloatArray, cells: Cells) -> float:
    """Log-loss of probabilities, (m, C), per vote."""
    votes = cells.n_votes[:, None] * cells.y
    return -float((votes * np.log(np.maximum(p, _TINY))).sum() / cells.n_votes.sum())
