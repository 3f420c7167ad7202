"""The two simulators of Frauen et al. (2026): nonlinear utilities with ties, and Bradley-Terry plus cycles."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, fields
from typing import ClassVar

import numpy as np
import pandas as pd
from scipy.special import expit, softmax

from ..data.arrays import FloatArray
from ..exceptions import OptionTypeError, listed, nearest
from .simulator_base import Rng, Simulator

__all__ = ["Bt", "Ties", "simulate_bt", "simulate_ties"]


@dataclass(frozen=True, slots=True)
class Ties(Simulator):
    r"""Win, loss or tie from nonlinear utilities.

    .. math:: u_j(x) = W_j^\top x + b_j + W^{(q)\top}_j x_{1:q}^{\odot 2} + s \sin(2 \pi x_0 + \phi_j), \qquad
              d_{jk} = (u_j - u_k) / T + \beta (x_0 - 1/2)

    .. math:: \mu_{jk} = \mathrm{softmax}(d_{jk}, -d_{jk}, \tau_0 - \tau_1 |d_{jk}| + \tau_c \cos(2 \pi x_1))

    Probabilities below ``min_mass`` are raised to ``min_mass``, and then all are renormalised. The defaults are those
    of the experiment of Frauen et al. on debiasing. Their experiment with external judges is ``Ties(n_features=5)``.

    Parameters
    ----------
    coefficients : int
        Seed of the coefficients. With two features, true BT scores span 1.7 with 0, 1.1 with 3 and 3.0 with 4.
    n_items, n_features : int
        Number of items, K, and of features, p. With a single feature, the tie term uses it in place of x_1.
    linear_scale, quadratic_scale : float
        Standard deviation of the coefficients W (sigma_l) and of the coefficients W_q of the squares (sigma_q).
    wave_scale : float
        Amplitude of the wave, s.
    offset_scale : float
        Standard deviation of the constants b.
    temperature : float
        Number by which differences of utilities are divided, T.
    position_effect : float
        How much the first feature changes the advantage of the item shown first, beta.
    min_mass : float
        Smallest probability of a category, epsilon_mu.
    propensity_rate : float
        Probability that a pair is labelled if the selection depends on neither context nor items, pi_p.
    selection_strength : float
        Weight of the part of a propensity that depends on context and items, lambda_pi: from 0, where every propensity
        is ``propensity_rate``, to 1.
    selection_decay : float
        How much more often pairs with similar utilities are labelled, kappa_pi.
    selection_tilt : float
        How much the first feature changes a propensity, eta_pi.
    selection_scale : float
        Standard deviation of the items' selection effects b_pi.
    propensity_min, propensity_max : float
        Bounds to which propensities are clipped, pi_min and pi_max.
    tie_level, tie_decay, tie_wave : float
        Log-odds of a tie: their level (tau_0), how much they fall with the advantage (tau_1), and the amplitude of
        their dependence on the second feature (tau_c).

    Raises
    ------
    OptionError, OptionTypeError
        If a parameter is out of its range or of the wrong kind.

    References
    ----------
    Frauen et al. (2026), arXiv 2601.21816, appendix on simulations, "Nonlinear ties simulator".

    Examples
    --------
    >>> ties = Ties()
    >>> battles = ties.sample(500, rng=0)
    >>> list(battles)
    ['question_id', 'x0', 'x1', 'model_a', 'model_b', 'winner', 'propensity']
    >>> ties.truth("borda", n=20_000).round(1).to_dict()
    {'model_0': 0.6, 'model_1': 0.7, 'model_2': 0.2}
    """

    n_categories: ClassVar[int] = 3
    _: KW_ONLY
    min_mass: float = 0.05
    propensity_min: float = 0.05
    tie_level: float = 0.2
    tie_decay: float = 1.2
    tie_wave: float = 0.4

    def _probabilities(self, X: FloatArray) -> FloatArray:
        """Return category probabilities before they are raised to ``min_mass``, (n, K, K, C)."""
        advantage = self.advantage(X)
        wave = np.cos(2 * np.pi * X[:, min(1, self.n_features - 1)])[:, None, None]
        tie = self.tie_level - self.tie_decay * np.abs(advantage) + self.tie_wave * wave
        return softmax(np.stack([advantage, -advantage, tie], axis=-1), axis=-1)


@dataclass(frozen=True, slots=True)
class Bt(Simulator):
    r"""Win or loss. With ``gamma=0`` Bradley-Terry holds in every context; otherwise preferences have cycles.

    .. math:: \mu_{jk1}(x) = \sigma(d_{jk}(x) + \gamma C_{jk}), \qquad C_{j, j+1 \bmod K} = 1 = -C_{j+1 \bmod K, j}

    with the utilities and the advantage d of :class:`Ties`. The defaults are those of the experiment of Frauen et al.
    on misspecified Bradley-Terry models, in which gamma goes from 0 to 4. Their experiment on optimal data collection
    is ``Bt(n_items=3, n_features=2, gamma=1)``. With two items there is no cycle, and C is zero.

    Parameters
    ----------
    coefficients : int
        Seed of the coefficients.
    n_items, n_features : int
        Number of items, K, and of features, p.
    linear_scale, quadratic_scale : float
        Standard deviation of the coefficients W (sigma_l) and of the coefficients W_q of the squares (sigma_q).
    wave_scale : float
        Amplitude of the wave, s.
    offset_scale : float
        Standard deviation of the constants b.
    temperature : float
        Number by which differences of utilities are divided, T.
    position_effect : float
        How much the first feature changes the advantage of the item shown first, beta.
    min_mass : float
        Smallest probability of a category, epsilon_mu.
    propensity_rate : float
        Probability that a pair is labelled if the selection depends on neither context nor items, pi_p.
    selection_strength : float
        Weight of the part of a propensity that depends on context and items, lambda_pi: from 0, where every propensity
        is ``propensity_rate``, to 1.
    selection_decay : float
        How much more often pairs with similar utilities are labelled, kappa_pi.
    selection_tilt : float
        How much the first feature changes a propensity, eta_pi.
    selection_scale : float
        Standard deviation of the items' selection effects b_pi.
    propensity_min, propensity_max : float
        Bounds to which propensities are clipped, pi_min and pi_max.
    gamma : float
        Strength of the cycle: how far the preferences are from a Bradley-Terry model.

    Raises
    ------
    OptionError, OptionTypeError
        If a parameter is out of its range or of the wrong kind.

    References
    ----------
    Frauen et al. (2026), arXiv 2601.21816, appendix on simulations, "BT misspecification simulator".

    Examples
    --------
    >>> bt = Bt(gamma=2)
    >>> bt.mu(bt.features(10, rng=0)).shape
    (10, 4, 4, 2)
    >>> sorted(bt.sample(200, rng=0)["winner"].dropna().unique())
    ['model_a', 'model_b']
    """

    n_categories: ClassVar[int] = 2
    _: KW_ONLY
    n_items: int = 4
    n_features: int = 5
    gamma: float = 0.0

    def _probabilities(self, X: FloatArray) -> FloatArray:
        """Return category probabilities before they are raised to ``min_mass``, (n, K, K, C)."""
        step = np.roll(np.eye(self.n_items), 1, axis=1)
        score = self.advantage(X) + self.gamma * (step - step.T)
        return np.stack([expit(score), expit(-score)], axis=-1)


def simulate_ties(n: int = 2000, *, coefficients: int = 0, rng: Rng = None, **parameters: float) -> pd.DataFrame:
    """Draw ``n`` contexts from :class:`Ties`, with their labelled pairs and the true propensities.

    Parameters
    ----------
    n : int
        Number of contexts.
    coefficients : int
        Seed of the coefficients of the simulator. The sample drawn with these coefficients has its own seed, ``rng``.
    rng : int, numpy.random.Generator or None
        Seed of the sample, generator to advance, or None for fresh entropy.
    **parameters : float
        Any other parameter of :class:`Ties`.

    Returns
    -------
    pandas.DataFrame
        As :meth:`Ties.sample`.

    Raises
    ------
    OptionError, OptionTypeError
        If a parameter does not exist, is out of its range or of the wrong kind.

    Examples
    --------
    >>> battles = simulate_ties(300, rng=0)
    >>> battles["question_id"].nunique()
    300
    """
    return _simulator(Ties, coefficients, parameters).sample(n, rng)


def simulate_bt(n: int = 2000, *, coefficients: int = 0, rng: Rng = None, **parameters: float) -> pd.DataFrame:
    """Draw ``n`` contexts from :class:`Bt`, with their labelled pairs and the true propensities.

    Parameters
    ----------
    n : int
        Number of contexts.
    coefficients : int
        Seed of the coefficients of the simulator. The sample drawn with these coefficients has its own seed, ``rng``.
    rng : int, numpy.random.Generator or None
        Seed of the sample, generator to advance, or None for fresh entropy.
    **parameters : float
        Any other parameter of :class:`Bt`, such as ``gamma``.

    Returns
    -------
    pandas.DataFrame
        As :meth:`Bt.sample`; there are no ties.

    Raises
    ------
    OptionError, OptionTypeError
        If a parameter does not exist, is out of its range or of the wrong kind.

    Examples
    --------
    >>> battles = simulate_bt(300, gamma=1.0, rng=0)
    >>> battles[["model_a", "model_b"]].stack().nunique()
    4
    """
    return _simulator(Bt, coefficients, parameters).sample(n, rng)


def _simulator(kind: type[Simulator], coefficients: int, parameters: dict[str, float]) -> Simulator:
    """Return a simulator with these parameters; raise where one of them does not exist."""
    names = [field.name for field in fields(kind) if field.name != "coefficients"]
    for name in parameters:
        if name not in names:
            raise OptionTypeError(
                f"{kind.__name__} has no parameter {name!r}; it has {listed(names, limit=20)}{nearest(name, names)}"
            )
    return kind(coefficients, **parameters)  # type: ignore[arg-type]  # n_items and n_features are checked as ints
