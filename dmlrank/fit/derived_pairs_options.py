"""Options of a fit whose data are pairs derived from scores or rankings."""

from __future__ import annotations

from collections.abc import Mapping

from ..data.derived_pairs import DerivedPairs
from ..exceptions import OptionError

# Options that concern votes by people: the only value that is allowed for pairs derived from scores or rankings, and
# why.
_VOTE_OPTIONS = {
    "categories": (None, "the label of such a pair follows from two scores or ranks"),
    "votes": ("mean", "several scores or rankings of a prompt are averaged"),
    "judge": (None, "verdicts of a judge are combined with labels by people, and these pairs have none"),
    "adjust": (None, "such a pair shows no two answers to a person whom style could impress"),
    "unlabelled": (None, "a prompt without scores is passed as a row of the scores, with the score missing"),
}


def for_derived_pairs(arguments: Mapping[str, object]) -> dict[str, object]:
    """Return the arguments of a fit; for derived pairs, their prompts are the contexts and display order is ignored."""
    data = arguments["data"]
    if not isinstance(data, DerivedPairs):
        return dict(arguments)
    for name, (allowed, reason) in _VOTE_OPTIONS.items():
        if name in arguments and arguments[name] is not allowed and arguments[name] != allowed:
            raise OptionError(
                f"{name}={arguments[name]!r} has no meaning for pairs that are derived from scores or rankings: "
                f"{reason}; leave {name} out"
            )
    context = arguments.get("context")
    names = (context,) if isinstance(context, str) else () if context is None else tuple(context)  # type: ignore[arg-type]
    if names and set(names) != set(data.prompt):
        raise OptionError(
            f"context={context!r} differs from the prompts that the pairs were derived for ({', '.join(data.prompt)}); "
            f"leave context= out"
        )
    if arguments.get("position_bias") is True:
        raise OptionError(
            "position_bias=True is not possible: pairs that are derived from scores or rankings have no display order; "
            "leave it out"
        )
    return {**arguments, "context": list(data.prompt), "position_bias": False}
