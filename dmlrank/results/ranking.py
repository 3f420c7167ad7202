"""What a leaderboard may claim: tests of all differences, rank sets, joint regions, a test of the model assumed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from ..exceptions import OptionError, check_choice, listed
from ..fit.pipeline import restriction_test
from ..inference.alternatives import check_side
from ..inference.compact_letters import letter_groups
from ..inference.ellipsoid import Ellipsoid, confidence_ellipsoid
from ..inference.hausman import RestrictionTest
from ..inference.hypotheses import HypothesisLike, read_hypothesis
from ..inference.pairwise import METHODS, compare_differences
from ..inference.ranks import rank_bounds, ranks_of, separate_each
from ..report.fit_summary import NOT_VALID, functional_unit
from ..report.pairwise_summary import PairwiseResults, pairwise_results
from .output import Output


class Claims(Output):
    """Questions about order, with the error of all answers held together, and about what a fit assumes."""

    __slots__ = ()

    def t_test_pairwise(
        self,
        method: str = "max-t",
        *,
        models: Sequence[str] | None = None,
        against: str | None = None,
        side: str = "two-sided",
        delta: float = 0.0,
        alpha: float | None = None,
        bootstrap: str | None = None,
    ) -> PairwiseResults:
        """Tests of all differences between models, as one family.

        Parameters
        ----------
        method : {"max-t", "step-down", "holm", "fdr_bh", "bonferroni", "none"}
            Adjustment of the p-values. ``"max-t"``: the joint normal distribution of all differences, in one step, with
            intervals that hold jointly. ``"step-down"``: the same step by step (Romano and Wolf), which rejects at
            least as much; intervals stay those of the single step. ``"holm"`` and ``"bonferroni"`` know nothing of the
            correlations; ``"fdr_bh"`` holds the false discovery rate only, with intervals each for itself. What
            :meth:`ranks` separates lies between the first two: it steps down, too, but over both directions of each
            difference, because ranks claim directions.
        models : sequence of str, optional
            Some of the models; all when None.
        against : str, optional
            A model that all others are compared with (Dunnett), instead of all pairs.
        side : {"two-sided", "larger", "smaller", "noninferiority", "equivalence"}
            The alternative: the difference is not ``delta``, above it, below it, above ``-delta``, or between
            ``-delta`` and ``delta``. All pairs are asked both ways where one side is tested.
        delta : float
            In the unit of the scores; a margin above zero for the last two.
        alpha : float, optional
            One minus the level; the fit's when None.
        bootstrap : {"gaussian", "rademacher", "webb"}, optional
            Multiplier bootstrap of the influence values (by cluster, where there are clusters) in place of the joint
            normal distribution, for ``"max-t"`` and ``"step-down"``.

        Returns
        -------
        PairwiseResults
            ``.result_frame``, ``.summary()``, ``.plot()``.

        Raises
        ------
        UnknownModelError, OptionError, OptionTypeError
        DataNotStoredError
            With ``bootstrap`` if the result was loaded without data.

        Notes
        -----
        Equivalence is two one-sided tests; its limits are those that have to lie between ``-delta`` and ``delta``.

        Examples
        --------
        >>> import dmlrank as dr
        >>> res = dr.dml_rank("winner ~ 1 | model_a + model_b", dr.datasets.simulate_arena(n=2000, rng=0), rng=0)
        >>> tests = res.t_test_pairwise(against="gpt-4")
        >>> tests.result_frame.columns.tolist()[:4], len(tests.result_frame)
        (['first', 'second', 'estimate', 'std_error'], 7)
        """
        self.require_models("t_test_pairwise")
        check_choice(method, METHODS, "method")
        margin, level, e = check_side(side, delta), self._alpha(alpha), self.estimates
        if against is None and side == "two-sided" and margin:
            raise OptionError(
                f"delta={delta!r} with side='two-sided' asks whether differences are {margin:g} or not, and those of "
                f"all pairs have no direction; give side='larger', 'noninferiority' or 'equivalence', or against="
            )
        if bootstrap is not None and method not in ("max-t", "step-down"):
            raise OptionError(f"bootstrap={bootstrap!r} is for method='max-t' and 'step-down', not {method!r}")
        chosen = self._chosen(models, against)
        first, second = _pairs(chosen, None if against is None else self._place(against), side)
        tests = compare_differences(
            e.estimate,
            e.covariance,
            self._noise(bootstrap),
            first,
            second,
            method=method,
            side=side,
            delta=margin,
            alpha=level,
        )
        about = {"method": method, "side": side, "delta": margin, "alpha": level, "against": against}
        names = tuple(e.models[j] for j in chosen)
        remark = "" if e.estimated_by.valid_intervals else NOT_VALID
        return pairwise_results(tests, e.models, models=names, functional=functional_unit(e), remark=remark, **about)

    def ranks(
        self, alpha: float | None = None, simultaneous: bool = True, bootstrap: str | None = None
    ) -> pd.DataFrame:
        """Ranks with confidence sets, and groups that the data cannot separate.

        Parameters
        ----------
        alpha : float, optional
            One minus the level; the fit's when None.
        simultaneous : bool
            Whether the sets hold for all models at once, or each for itself.
        bootstrap : {"gaussian", "rademacher", "webb"}, optional
            As in :meth:`t_test_pairwise`.

        Returns
        -------
        DataFrame
            A row per model, the best first: ``rank`` by score, ``lower`` and ``upper`` (best and worst rank that the
            data leave open) and ``group``: two models share a letter exactly where neither is shown to be above the
            other, at the joint level whatever ``simultaneous`` says. A shared letter does not show equality.

        Notes
        -----
        A model's best possible rank is one plus the number of models shown to be above it, its worst K less those shown
        to be below, by step-down max-t tests of the one-sided hypotheses theta_j <= theta_k: for all ordered pairs
        (simultaneous), or those of one model. Sets hold with ties, too.

        References
        ----------
        Mogstad, Romano, Shaikh and Wilhelm (2024), Inference for ranks with applications to mobility across
        neighbourhoods and academic achievement across countries, Review of Economic Studies 91.

        Examples
        --------
        >>> import dmlrank as dr
        >>> res = dr.dml_rank("winner ~ 1 | model_a + model_b", dr.datasets.simulate_arena(n=2000, rng=0), rng=0)
        >>> res.ranks().columns.tolist()
        ['rank', 'lower', 'upper', 'group']
        """
        self.require_models("ranks")
        e, level = self.estimates, self._alpha(alpha)
        joint = self._separation(level, bootstrap)
        lower, upper = rank_bounds(joint.above)
        if not simultaneous:
            found = separate_each(e.estimate, e.covariance, self._noise(bootstrap), level)
            lower, upper = rank_bounds(found[:, :, 0], found[:, :, 1])
        groups = letter_groups(joint.separated, e.estimate)
        columns = {"rank": ranks_of(e.estimate), "lower": lower, "upper": upper, "group": groups}
        return pd.DataFrame(columns, index=list(e.models)).iloc[np.argsort(-e.estimate, kind="stable")]

    def best_set(self, n_best: int = 1, alpha: float | None = None, bootstrap: str | None = None) -> list[str]:
        """The models that may be among the ``n_best`` best.

        With probability ``1 - alpha`` all models that truly are among them are in the set, for every ``n_best`` at
        once: it is those whose simultaneous rank set begins at ``n_best`` or better.

        Parameters
        ----------
        n_best : int
            From 1 to the number of models.
        alpha, bootstrap
            As in :meth:`ranks`.

        Returns
        -------
        list of str
            The best first.

        Examples
        --------
        >>> import dmlrank as dr
        >>> res = dr.dml_rank("winner ~ 1 | model_a + model_b", dr.datasets.simulate_arena(n=2000, rng=0), rng=0)
        >>> set(res.best_set(1)) <= set(res.best_set(3))
        True
        """
        self.require_models("best_set")
        number = len(self.estimates.models)
        if isinstance(n_best, bool) or not isinstance(n_best, int | np.integer) or not 1 <= n_best <= number:
            raise OptionError(f"n_best={n_best!r}: needed is a whole number from 1 to {number}, the number of models")
        ranks = self.ranks(alpha, bootstrap=bootstrap)
        return ranks.index[ranks["lower"] <= n_best].tolist()

    def ellipsoid(
        self,
        alpha: float | None = None,
        models: Sequence[str] | None = None,
        contrasts: HypothesisLike | None = None,
    ) -> Ellipsoid:
        """The joint confidence region of some or all scores, or of contrasts of them.

        Parameters
        ----------
        alpha : float, optional
            One minus the level; the fit's when None.
        models : sequence of str, optional
            All when None.
        contrasts : optional
            Hypotheses as for :meth:`t_test`, in place of models: ``["a - b", "(a + b)/2 - c"]``. A hypothesis' own
            value (``"a - b = 0.1"``) is subtracted.

        Returns
        -------
        Ellipsoid
            Its degrees of freedom, radius and volume are those of the directions that the functional leaves free.
            ``plot()`` draws the region of a pair.

        Raises
        ------
        UnknownModelError, OptionError
        HypothesisError
            If what is asked for is fixed by the functional, or does not vary in the data.

        Examples
        --------
        >>> import dmlrank as dr
        >>> res = dr.dml_rank("winner ~ 1 | model_a + model_b", dr.datasets.simulate_arena(n=2000, rng=0), rng=0)
        >>> region = res.ellipsoid(models=["gpt-4", "claude-v1"])
        >>> region.df, region.contains(res.params[["gpt-4", "claude-v1"]])
        (2, True)
        >>> res.ellipsoid(contrasts=["gpt-4 - claude-v1", "claude-v1 - koala-13b"]).models
        ('gpt-4 - claude-v1', 'claude-v1 - koala-13b')
        """
        e, level = self.estimates, self._alpha(alpha)
        if contrasts is not None:
            if models is not None:
                raise OptionError("models= and contrasts= both say what the region is about; give one of them")
            read = read_hypothesis(contrasts, e.names)
            region = confidence_ellipsoid(e.estimate, e.covariance, read.labels, read.matrix, e.reason, level)
            return replace(region, center=region.center - read.value, scores=False)
        chosen = e.names if models is None else [models] if isinstance(models, str) else list(models)
        places = [self._place(name) for name in chosen]
        if len(set(places)) < len(places) or not places:
            raise OptionError(f"models names every score of the region once, at least one; got {listed(chosen)}")
        rows = np.eye(len(e.names))[places]
        return confidence_ellipsoid(e.estimate, e.covariance, chosen, rows, e.reason, level)

    def restriction_test(self) -> RestrictionTest:
        """Test of the Bradley-Terry model by what assuming it changes (Hausman), for ``estimator="bt_restricted"``.

        The restricted scores are held against the projection, from the same first stages, with the covariance of the
        difference of their influence values. Where contexts are independent the p-value comes from samples of labels
        from the restricted model, because chi-squared rejects too often where probabilities are near 0 or 1. It sees
        departures that move the scores; a small p-value says that the restricted scores are not those of the
        projection, and ``estimator="debiased"`` is the one to report.

        Returns
        -------
        RestrictionTest
            ``statistic``, ``df``, ``pvalue`` and a ``frame`` by model.

        Raises
        ------
        OptionError
            If the estimator is another, or nothing is restricted (two models, a graph without cycles).
        DataNotStoredError
            If the result was loaded without data.

        References
        ----------
        Hausman (1978), Specification tests in econometrics, Econometrica 46.

        Examples
        --------
        >>> import dmlrank as dr
        >>> sim = dr.datasets.Bt(n_items=3, n_features=1, gamma=0)
        >>> battles = sim.sample(800, rng=0)
        >>> x = battles.drop_duplicates("question_id")[["x0"]].to_numpy()
        >>> known = {"mu": sim.mu(x), "propensity": sim.propensity(x), "context": "question_id"}
        >>> formula = "winner ~ x0 | model_a + model_b"
        >>> res = dr.dml_rank(formula, battles, functional="bt", estimator="bt_restricted", rng=0, **known)
        >>> test = res.restriction_test()
        >>> test.df, test.pvalue > 0.05
        (2, True)
        """
        if not self.estimates.estimated_by.has_restriction_test:
            raise OptionError(
                f"restriction_test is for estimator='bt_restricted'; this fit has {self.estimates.estimator!r}: use "
                f"update(functional='bt', estimator='bt_restricted').restriction_test()"
            )
        return restriction_test(self._live("restriction_test"))

    def _chosen(self, models: Sequence[str] | None, against: str | None) -> list[int]:
        """Places of the models to compare, the best first."""
        names = self.estimates.models if models is None else [models] if isinstance(models, str) else list(models)
        places = [self._place(name) for name in names]
        if against is not None and self._place(against) not in places:
            places.append(self._place(against))
        if len(set(places)) < len(places) or len(places) < 2:
            raise OptionError(f"models names every model once, at least two; got {listed(names)}")
        score = self.estimates.estimate
        return sorted(places, key=lambda j: (-score[j], j))


def _pairs(order: list[int], against: int | None, side: str) -> tuple[np.ndarray, np.ndarray]:
    """First and second model of every difference; both ways round where all pairs are asked about one side."""
    if against is not None:
        others = [j for j in order if j != against]
        return np.array(others), np.full(len(others), against)
    both = side in ("larger", "smaller", "noninferiority")
    places = range(len(order))
    pairs = [(order[a], order[b]) for a in places for b in places if a < b or (both and a != b)]
    first, second = zip(*pairs, strict=True)
    return np.array(first), np.array(second)
