"""Options of a fit whose data are pairs derived from scores or rankings."""

from __future__ import annotations

from collections.abc import Mapping

from ..data.derived_pairs import DerivedPairs
from ..exceptions import OptionError

# Options about votes that somebody cast, with the only value that pairs derived from scores or rankings allow.
_ABOUT_VOTES = {
    "categories": (None, "labels follow from the numbers"),
    "votes": ("mean", "the records of a prompt are averaged"),
    "judge": (None, "a judge's verdicts stand beside votes"),
    "unlabelled": (None, "a prompt without scores is a row whose score is missing"),
}


def for_derived_pairs(given: Mapping[str, object]) -> dict[str, object]:
    """Return the arguments of a fit with what derived pairs imply: their prompts are contexts, order has no meaning.

    Parameters
    ----------
    given : mapping
        Arguments of :func:`dmlrank.dml_rank` by name; ``data`` is among them.

    Raises
    ------
    OptionError
        If an option says otherwise, or is about votes.

    Examples
    --------
    >>> for_derived_pairs({"data": "a frame", "context": "prompt"})["context"]
    'prompt'
    """
    data = given["data"]
    if not isinstance(data, DerivedPairs):
        return dict(given)
    for name, (only, reason) in _ABOUT_VOTES.items():
        if name in given and given[name] is not only and given[name] != only:
            raise OptionError(
                f"{name}={given[name]!r} has no meaning for pairs that are derived from scores or rankings: {reason}; "
                f"leave it out"
            )
    context = given.get("context")
    names = (context,) if isinstance(context, str) else () if context is None else tuple(context)  # type: ignore[arg-type]
    if names and set(names) != set(data.prompt):
        raise OptionError(
            f"context={context!r} differs from the prompts that the pairs were derived for ({', '.join(data.prompt)}); "
            f"leave context= out"
        )
    order = given.get("position_bias", "auto")
    if order is True:
        raise OptionError(
            "position_bias=True is not possible: pairs that are derived from scores or rankings have no display order; "
            "leave it out"
        )
    return {**given, "context": list(data.prompt), "position_bias": False}
