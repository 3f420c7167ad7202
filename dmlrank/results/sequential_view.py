"""The sequential view of a result: the same estimates, with intervals and tests that hold at all looks at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from .._utils.argument_checks import check_whole
from .._utils.warning_collection import warn
from ..exceptions import IntervalWarning, OptionError, listed
from ..fit.estimates import Estimates
from ..fit.state import FitSteps
from ..inference.confidence_sequence import DEFAULT_START, ConfidenceSequence
from .critical_values import interval_critical_value
from .lookup import require_intervals, require_raw_scores

_SLOPES = "slopes on style and rank changes have intervals for one look only"


def sequential_view(estimates: Estimates, *, planned: int, start: int) -> Estimates:
    """Return the estimates with a :class:`ConfidenceSequence`; see :meth:`RankResults.sequential`."""
    require_intervals(estimates, "sequential")
    _require_growing_sample(estimates)
    check_whole("planned", planned, 2)
    check_whole("start", start, 2)
    n_units, unit = independent_units(estimates)
    if planned < start:
        raise OptionError(
            f"planned={planned:,} is below start={start:,} ({DEFAULT_START:,} by default), and no interval is shown "
            f"before the first look; give planned= the number of {unit} at which you expect to decide, at least "
            f"{start:,}, or fix a smaller start= before the first look"
        )
    if n_units < start:
        raise OptionError(
            f"sequential(start={start:,}): this result has {n_units:,} {unit}, and the first look is at {start:,}, "
            f"because intervals rest on the normal approximation; collect more votes, or fix a smaller start= before "
            f"the first look"
        )
    sequence = ConfidenceSequence(int(planned), int(start), estimates.alpha, n_units, unit)
    view = replace(estimates, sequence=sequence)
    return replace(view, critical=interval_critical_value(view, estimates.alpha))


def require_same_alpha(estimates: Estimates, changes: Mapping[str, object]) -> None:
    """Raise where an update of a sequential view changes alpha."""
    sequence, alpha = estimates.sequence, changes.get("alpha", estimates.alpha)
    if sequence is not None and alpha != sequence.alpha:
        raise OptionError(sequence.why_not_alpha(alpha))


def warn_of_returning_clusters(extended: FitSteps) -> None:
    """Warn where clusters that were there at an earlier look of a sequential view have further contexts or votes."""
    extension, clusters = extended.extension, extended.clusters
    if extension is None or clusters is None or not extension.clusters_returning:
        return
    warn(
        f"{extension.clusters_returning:,} clusters of {clusters.names[0]!r} were there at an earlier look and have "
        f"further votes: sequential intervals hold at all looks only if every cluster enters whole, at one look. Keep "
        f"the votes of new clusters alone, or fix the number of looks in advance and show the intervals of one look at "
        f"level 1 - alpha / looks: fit with alpha=, without sequential()",
        stacklevel=2,
        kind=IntervalWarning,
    )


def independent_units(estimates: Estimates) -> tuple[int, str]:
    """Return the number of independent units, contexts or clusters, and their name in the plural."""
    description = estimates.description
    if description.clusters:
        return estimates.covariance.n_clusters[0], f"clusters of {description.clusters[0]!r}"
    return description.n_contexts, "prompts" if description.context else "rows"


def _require_growing_sample(estimates: Estimates) -> None:
    """Raise where estimates at several looks are not averages over one growing sample of independent units."""
    description, old = estimates.description, estimates.sequence
    if old is not None:
        raise OptionError(
            f"this is a sequential view already, for planned={old.planned:,} and start={old.start:,}, which cannot be "
            f"changed after a look; use the view as it is"
        )
    if description.prompts == "fixed":
        raise OptionError(
            "sequential() with prompts='fixed': the scores are about these prompts alone, so that every look has other "
            "true scores; use update(prompts='random').sequential()"
        )
    if estimates.diagnostics.subsample:
        raise OptionError(
            "sequential() with subsample=: every look draws another sample of prompts, whose error does not shrink as "
            "votes arrive; use update(subsample=None).sequential()"
        )
    if len(description.clusters) > 1:
        raise OptionError(
            f"sequential() with clusters of {listed(description.clusters)}: intervals that hold at all looks have no "
            f"theory for crossed clusters; use the intervals of one look, or keep one vote of each prompt and one "
            f"column of clusters"
        )
    require_raw_scores(estimates, "sequential()", _SLOPES)
