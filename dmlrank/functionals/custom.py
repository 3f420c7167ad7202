"""Custom functionals: a user's function of mu, which a trial checks, with a difference of two calls as derivative."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from .._utils.argument_checks import check_flag, must_be, number_in
from ..data.graph import Graph
from ..data.outcomes import in_other_order
from ..data.preferences import FloatArray
from ..exceptions import OptionError, OptionTypeError, listed
from .base import CategoryWeights, Functional, Gauge, central_differences
from .trial import trial_tables


@dataclass(frozen=True, eq=False)
class Custom(Functional):
    """A functional from a user's function of ``mu``, which gives d scores of models or d named numbers per context.

    The derivative along a direction is a central difference and takes two calls of the function, however many models
    there are. See :meth:`Functional.derivative` for its step.

    Two computations need the derivatives along all pairs, which take 2 K (K - 1) (C - 1) calls: plans (``design``), and
    the variance correction. The correction enlarges standard errors that are too small where the fitted mu is shrunken,
    that is, less extreme than the true probabilities. It needs all these derivatives at two different mu. A fit makes
    it only where all calls together get at most 4e8 probabilities, for example up to 330 prompts for K = 20 and C = 2,
    or up to 2,300 prompts for K = 8 and C = 4.

    Parameters
    ----------
    function : callable
        Takes ``mu``, (n, K, K, C): category probabilities with j first and k second in ``[:, j, k]``, zero where
        j = k, items and categories in the order of ``res.models`` and ``res.diagnostics.categories`` of a result.
        Returns (n, d), or (n,) for one number. The result of a context has to depend on that context alone and has to
        be differentiable in mu: a function with a jump, such as a share above a threshold, or with a kink, such as a
        minimum over models, is refused.
    outputs : str or sequence of str, optional
        Names of the d numbers. Without names and with d = K, the numbers are the scores of the models. Otherwise a
        result has the names in place of models, and no ranks.
    directional : callable, optional
        Analytic derivative ``(mu, delta) -> (n, d)``, which is compared with differences before it is used.
    fixed : array_like, (g, d), optional
        Coefficients of linear combinations of the outputs that are constant whatever the data say, such as
        ``[np.ones(K)]`` for scores with a constant sum. By default no combination is constant, and a fit warns where
        its covariance shows otherwise.
    reference : float, optional
        Value with which z tests compare an output; by default the mean score, or 0 where the outputs are not models.
    interior : bool
        Whether the function has a logit or a division, so that mu is clipped at a floor above 0. If not, the function
        has to be defined for numbers slightly outside of [0, 1].
    linear : bool
        Whether the function is linear in mu; corrections for curvature are then left out.
    weights : CategoryWeights, optional
        Category weights, which say how many categories there are; a fit sets them with :meth:`bind`.
    graph : Graph, optional
        The compared pairs; a fit sets them with :meth:`bind`.
    mirrored : bool
        Whether display order is ignored: the function then gets the mean of two probabilities, those of the order
        (j, k) in ``mu``, and those of the order (k, j) with the categories exchanged accordingly.

    Raises
    ------
    OptionError, OptionTypeError, GraphError
        If a trial at random probabilities, in a fit or a plan, shows that the function fails, that it does not return
        finite numbers (n, d), that it mixes contexts, that it has a jump or a kink, that it uses pairs that are not
        compared, that it is not linear, or that its analytic derivative or ``fixed`` is wrong.

    Examples
    --------
    >>> def gap(mu):
    ...     share = (mu[..., 0] + np.swapaxes(mu[..., 1], 1, 2)).sum(axis=2) / 2
    ...     return share[:, 0] - share[:, 1]
    >>> top_gap = Custom(gap, outputs="gap of the first two", interior=False)
    >>> mu = np.full((1, 3, 3, 2), 0.5); mu[0, 0, 1] = [0.7, 0.3]
    >>> top_gap.value(mu).round(3), top_gap.derivative(mu, mu).round(3)
    (array([[0.2]]), array([[0.2]]))
    """

    function: Callable[[FloatArray], ArrayLike]
    outputs: str | Sequence[str] | None = None
    directional: Callable[[FloatArray, FloatArray], ArrayLike] | None = None
    fixed: ArrayLike | None = None
    reference: float | None = None
    interior: bool = True
    linear: bool = False
    weights: CategoryWeights | None = None
    graph: Graph | None = None
    mirrored: bool = field(default=False, repr=False)
    says_fixed = "fixed={}"

    def __post_init__(self) -> None:
        must_be(callable, "a function of mu")("Custom(function=)", self.function)
        if self.directional is not None:
            must_be(callable, "a function of (mu, delta), or None")("Custom(directional=)", self.directional)
        if self.reference is not None:
            number_in("Custom(reference=)", self.reference, np.isfinite, "allowed: a finite number, or None")
        for name in ("interior", "linear", "mirrored"):
            check_flag(f"Custom({name}=)", getattr(self, name))
        if self.outputs is not None:
            if not isinstance(self.outputs, Iterable):
                raise OptionTypeError(f"Custom(outputs=) is a {type(self.outputs).__name__}; allowed: a list of names")
            names = (self.outputs,) if isinstance(self.outputs, str) else tuple(self.outputs)
            if not names or len(set(names)) < len(names) or not all(isinstance(n, str) and n for n in names):
                raise OptionError(f"Custom(outputs=) is {listed(names)}; allowed: different, non-empty names")
            object.__setattr__(self, "outputs", names)
        super().__post_init__()

    @property
    def label(self) -> str:
        """Name and short description, for headers."""
        return f"custom ({self.title})"

    @property
    def title(self) -> str:
        """Name of the function; a lambda is called "own function"."""
        title = getattr(self.function, "__name__", type(self.function).__name__)
        return "own function" if title == "<lambda>" else str(title)

    def names(self, items: Sequence[str]) -> tuple[str, ...]:
        if self.outputs is not None:
            return tuple(self.outputs)
        n_outputs = self.value(trial_tables(self, len(items))[0]).shape[1]
        if n_outputs == len(items):
            return tuple(items)
        return (self.title,) if n_outputs == 1 else tuple(f"{self.title}_{place + 1}" for place in range(n_outputs))

    def neutral(self, n_items: int) -> float | None:
        if self.reference is not None:
            return float(self.reference)
        items = tuple(map(str, range(n_items)))
        return None if self.names(items) == items else 0.0

    def value(self, mu: FloatArray) -> FloatArray:
        values = np.asarray(self.function(self._argument(mu)))
        return values[:, None] if values.ndim == 1 else values

    def derivative(self, mu: FloatArray, delta: FloatArray) -> FloatArray:
        if self.directional is None:
            return central_differences(self.value, mu, delta, self.interior)
        change = np.asarray(self.directional(self._argument(mu), self._argument(delta)), dtype=np.float64)
        return change[:, None] if change.ndim == 1 else change

    def gauge(self, n_items: int) -> Gauge:
        if self.fixed is None:
            return super().gauge(n_items)
        return Gauge.spanned_by(self.fixed, "the combinations of outputs in fixed= are constants by assumption")

    def _argument(self, mu: FloatArray) -> FloatArray:
        """Return the argument of the function: ``mu``, or its mean over both orders where order is ignored."""
        return np.asarray((mu + in_other_order(mu)) / 2) if self.mirrored else mu
