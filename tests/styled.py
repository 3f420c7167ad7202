"""A simulator of votes that depend on the style of answers, where style depends on the model and the prompt."""

from dataclasses import KW_ONLY, dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
import scipy
from scipy.special import expit, logit, softmax

# Coefficients by model; with more models they repeat. The model with the longest answers is not the strongest one.
_STRENGTH = (0.6, 0.1, -0.2, -0.5)
_STRENGTH_SLOPES = ((1.0, -0.4), (-0.8, 0.6), (0.4, 0.4), (-0.6, -0.6))
_LENGTH = (-0.5, 0.5, 0.1, -0.1)
_HEADER_RATE = (0.3, 1.2, 0.8, 0.4)
_POPULARITY = (0.3, -0.3, 0.2, -0.2)
_LENGTH_NOISE = 0.35
_MOST_HEADERS = 16
# Nodes of the quadrature over each context feature, and over the difference of the lengths.
_FEATURE_NODES, _LENGTH_NODES = 8, 32
_REACH = 7.0


class StyleTruth(NamedTuple):
    """True scores and slopes of a simulator.

    equal: Scores at equal style by model.
    averaged: Scores averaged over style by model: the link of the preference m is averaged over style.
    """

    equal: pd.Series
    averaged: pd.Series
    slopes: pd.Series


@dataclass(frozen=True, slots=True)
class Styled:
    r"""Simulator of votes that depend on the strength of the models and on length and headers of the answers.

    The features x_0 and x_1 of a prompt are uniform on [0, 1]. The log length of an answer is normal, with a mean that
    depends on model and prompt; its number of headers has a Poisson distribution. With the style differences
    log_length, d_1, and headers, d_2 (:func:`dmlrank.data.style_columns`), the preference for the answer shown first is

    .. math:: \operatorname{logit} m = h_j(x) - h_k(x) + \beta_1 (1 + \kappa (x_1 - 1/2)) g(d_1) + \beta_2 d_2, \qquad
              g(d) = (1 - \kappa) d + \kappa \tanh(2 d)

    A tie has the probability 2 t m (1 - m). Which pair is shown depends on x_0.

    length_effect, header_effect: Coefficients of the style differences, beta_1 and beta_2.
    nonlinearity: How far the log-odds are from linear in style, kappa: from 0, where they are linear, to 1.
    tie_share: Share of ties among close battles, t, from 0 to 1.
    n_items: Number of models, K.
    """

    length_effect: float = 0.8
    header_effect: float = 0.5
    _: KW_ONLY
    nonlinearity: float = 0.0
    tie_share: float = 0.2
    n_items: int = 4

    @property
    def models(self):
        """Names of the models."""
        return tuple(f"model_{j + 1}" for j in range(self.n_items))

    def sample(self, n, rng=0):
        """Draw n battles, one for each prompt: features, models, winner and style columns."""
        random = np.random.default_rng(rng)
        x = random.uniform(size=(n, 2))
        rows, (first, second) = np.arange(n), np.triu_indices(self.n_items, 1)
        popularity = np.resize(_POPULARITY, self.n_items) * (2 * x[:, [0]] - 0.5)
        shown = softmax(popularity[:, first] + popularity[:, second], axis=1)
        pair = (random.uniform(size=(n, 1)) > shown.cumsum(axis=1)[:, :-1]).sum(axis=1)
        is_reversed = random.uniform(size=n) < 0.5
        j = np.where(is_reversed, second[pair], first[pair])
        k = np.where(is_reversed, first[pair], second[pair])
        strength, mean, rate = self._answers(x)
        headers_j, headers_k = (random.poisson(rate[rows, items]) for items in (j, k))
        log_length = mean[rows, j] - mean[rows, k] + _LENGTH_NOISE * random.normal(size=(n, 2)) @ [1, -1]
        headers = (headers_j - headers_k) / (headers_j + headers_k + 1)
        m = self._preference(strength[rows, j] - strength[rows, k], x[:, 1], log_length, headers)
        tie = 2 * self.tie_share * m * (1 - m)
        uniform = random.uniform(size=n)
        winner = np.where(uniform < tie, "tie", np.where(uniform < tie / 2 + m, "model_a", "model_b"))
        names = np.array(self.models)
        columns = {"x0": x[:, 0], "x1": x[:, 1], "model_a": names[j], "model_b": names[k], "winner": winner}
        return pd.DataFrame(columns | {"log_length": log_length, "headers": headers})

    def truth(self, functional="bt"):
        """Compute true scores of "bt" or "borda", and slopes, by quadrature."""
        nodes, weights = np.polynomial.legendre.leggauss(_FEATURE_NODES)
        nodes, weights = (nodes + 1) / 2, weights / 2
        x, weight = np.stack(np.meshgrid(nodes, nodes), axis=-1).reshape(-1, 2), np.outer(weights, weights).reshape(-1)
        link = logit if functional == "bt" else np.asarray
        # The mean link, (P, x), and the mean style, (P, x, 2), of every pair and context; the slopes are of both.
        cross, variance, mean_link, mean_style = np.zeros(2), np.zeros((2, 2)), [], []
        for j, k in zip(*np.triu_indices(self.n_items, 1), strict=True):
            law, style, m = self._pair(x, j, k)
            mean_link.append((law * link(m)).sum(axis=1))
            mean_style.append(np.einsum("xs,xsr->xr", law, style))
            apart, weighted = style - mean_style[-1][:, None], weight[:, None] * law
            cross += np.einsum("xs,xsr->r", weighted * (link(m) - mean_link[-1][:, None]), apart)
            variance += np.einsum("xs,xsr,xst->rt", weighted, apart, apart)
        beta = np.linalg.solve(variance, cross)
        averaged = self._scores(functional, np.stack(mean_link) @ weight)
        equal = self._scores(functional, (np.stack(mean_link) - np.stack(mean_style) @ beta) @ weight)
        models = pd.Index(self.models)
        slopes = pd.Series(beta, index=["log_length", "headers"])
        return StyleTruth(pd.Series(equal, index=models), pd.Series(averaged, index=models), slopes)

    def _scores(self, functional, values):
        """Return scores, (K,), from mean link values of all pairs, (P,)."""
        matrix = np.zeros((self.n_items, self.n_items))
        first, second = np.triu_indices(self.n_items, 1)
        centre = 0.0 if functional == "bt" else 0.5
        matrix[first, second], matrix[second, first] = values - centre, centre - values
        return centre + matrix.sum(axis=1) / (self.n_items - (functional == "borda"))

    def _pair(self, x, j, k):
        """Return probabilities of s style differences of a pair, the differences, and its preferences.

        Shapes: x (x, 2), probabilities (x, s), differences of log_length and headers (x, s, 2), preferences (x, s).
        """
        strength, mean, rate = self._answers(x)
        centre, spread = mean[:, j] - mean[:, k], np.sqrt(2) * _LENGTH_NOISE
        low, high = centre - _REACH * spread, centre + _REACH * spread
        nodes, weights = np.polynomial.legendre.leggauss(_LENGTH_NODES)
        length = low[:, None] + (high - low)[:, None] * (nodes + 1) / 2
        length_law = weights / 2 * (high - low)[:, None] * scipy.stats.norm.pdf(length, centre[:, None], spread)
        count = np.arange(_MOST_HEADERS)
        joint = (
            scipy.stats.poisson.pmf(count, rate[:, [j]])[:, :, None]
            * scipy.stats.poisson.pmf(count, rate[:, [k]])[:, None, :]
        )
        ratio = (count[:, None] - count) / (count[:, None] + count + 1)
        values, place = np.unique(ratio.reshape(-1).round(12), return_inverse=True)
        header_law = np.zeros((len(x), len(values)))
        np.add.at(header_law.T, place.reshape(-1), joint.reshape(len(x), -1).T)
        law = length_law[:, :, None] * header_law[:, None, :]
        style = np.stack(np.broadcast_arrays(length[:, :, None], values), axis=-1)
        base = (strength[:, j] - strength[:, k])[:, None, None]
        m = self._preference(base, x[:, 1][:, None, None], style[..., 0], style[..., 1])
        n = len(x)
        return law.reshape(n, -1), style.reshape(n, -1, 2), m.reshape(n, -1)

    def _preference(self, base, x1, length, headers):
        """Return m for differences of the strengths, a feature, and both style differences."""
        kappa = self.nonlinearity
        curve = (1 - kappa) * length + kappa * np.tanh(2 * length)
        slope = self.length_effect * (1 + kappa * (x1 - 0.5))
        return expit(base + slope * curve + self.header_effect * headers)

    def _answers(self, x):
        """Return strengths, mean log lengths of the answers, and mean numbers of headers, (n, K) each."""
        slopes = np.resize(np.array(_STRENGTH_SLOPES), (self.n_items, 2))
        strength = np.resize(_STRENGTH, self.n_items) + (x - 0.5) @ slopes.T
        mean_length = np.resize(_LENGTH, self.n_items) * (0.6 + 0.8 * x[:, [0]])
        return strength, mean_length, np.resize(_HEADER_RATE, self.n_items) * (0.5 + x[:, [1]])
