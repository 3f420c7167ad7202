"""Options of a fit whose data are pairs derived from scores or rankings."""

from __future__ import annotations

from dataclasses import replace

from ..data.derived_pairs import DerivedPairs
from ..exceptions import OptionError, listed
from ..options import OPTIONS, Options

# Options that concern votes by people, and why they have no meaning for pairs derived from scores or rankings.
_VOTE_OPTIONS = {
    "categories": "the label of such a pair follows from two scores or ranks",
    "votes": "several scores or rankings of a prompt are averaged",
    "judge": "verdicts of a judge are combined with labels by people, and these pairs have none",
    "adjust": "such a pair shows no two answers to a person whom style could impress",
}


def for_derived_pairs(options: Options, data: object) -> Options:
    """Return the options of a fit; for derived pairs, their prompts are the contexts and display order is ignored."""
    if not isinstance(data, DerivedPairs):
        return options
    for name, reason in _VOTE_OPTIONS.items():
        value = getattr(options, name)
        if not OPTIONS[name].is_default(value):
            raise OptionError(
                f"{name}={value!r} has no meaning for pairs that are derived from scores or rankings: {reason}; leave "
                f"{name} out"
            )
    if options.context and set(options.context) != set(data.prompt):
        raise OptionError(
            f"context= names {listed(options.context)}, which differs from the prompts that the pairs were derived for "
            f"({', '.join(data.prompt)}); leave context= out"
        )
    if options.position_bias is True:
        raise OptionError(
            "position_bias=True is not possible: pairs that are derived from scores or rankings have no display order; "
            "leave it out"
        )
    return replace(options, context=tuple(data.prompt), position_bias=False)
