"""The options of a fit: one table that describes each of them, and their checks before anything is computed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, Literal, get_args

from ._utils.argument_checks import (
    as_judges,
    at_least,
    check_alpha_option,
    check_categories,
    check_floor,
    check_formula,
    check_position_bias,
    check_weights,
    cluster_groups,
    context_columns,
    cov_type_of,
    number_or_word,
    resolve_seed,
    unfitted_copy,
    yes_no_or_word,
)
from .exceptions import OptionError, check_choice, listed, nearest
from .style_adjustment import BalancedStyle, EqualStyle, as_adjustment, check_adjustment

EstimatorName = Literal["debiased", "plugin", "bt_restricted", "bt_mle", "bt_contextual"]
CovType = Literal["robust", "cluster"]
Missing = Literal["raise", "drop", "keep"]
Prompts = Literal["random", "fixed"]
Votes = Literal["mean", "first"]
Average = Literal["scores", "preferences"]

ESTIMATORS: tuple[str, ...] = get_args(EstimatorName)
COV_TYPES: tuple[str, ...] = get_args(CovType)
PROMPTS: tuple[str, ...] = get_args(Prompts)

# Estimators with first stages, and those of them that can use verdicts of judges.
_WITH_FIRST_STAGES = ("debiased", "plugin", "bt_restricted")
_WITH_JUDGES = ("debiased", "plugin")
# Estimators whose scores are means over prompts.
_MEANS_OVER_PROMPTS = (*_WITH_FIRST_STAGES, "bt_contextual")


@dataclass(frozen=True, slots=True, eq=False)
class Options:
    """The options of a fit, normalised: what :func:`dmlrank.dml_rank` takes beside formula and data.

    :func:`dmlrank.dml_rank` documents what each option means and which values the caller may pass. Below stands the
    form in which the checked value is stored, with a sentence where this form is not the caller's.

    context: Columns that identify a context; empty where every row is one.
    judge: As :func:`as_judges` returns it.
    adjust: A formula becomes EqualStyle.
    mu (n, K, K, C).
    learner: A classifier is an unfitted copy of the caller's.
    graph (K, K).
    edge_weights (K, K).
    weights (n,).
    groups: Columns of clusters, from ``cov_kwds``.
    seed: From ``rng``.
    """

    functional: object
    average: str
    context: tuple[str, ...]
    propensity: object
    propensity_formula: str | None
    estimator: str
    judge: object
    judge_as: str
    adjust: EqualStyle | BalancedStyle | None
    mu: object
    learner: object
    n_folds: int
    n_rep: int
    tune: Any
    position_bias: bool | str
    graph: object
    min_labels: int
    component: str
    min_comparisons: int
    edge_weights: object
    weights: object
    categories: Mapping[Any, str | float] | None
    category_weights: object
    prompts: str
    floor: float | str
    subsample: int | None
    cov_type: str
    groups: tuple[str, ...]
    missing: str
    votes: str
    unlabelled: object
    alpha: float
    seed: int
    n_jobs: int | None

    @property
    def propensity_column(self) -> str | None:
        """Name of the column that holds propensities; None where they come from elsewhere."""
        if isinstance(self.propensity, str) and self.propensity not in ("estimate", "marginal"):
            return self.propensity
        return None

    @property
    def style_columns(self) -> tuple[str, ...]:
        """Names of the columns with style differences; empty without an adjustment for style."""
        return () if self.adjust is None else self.adjust.columns

    @property
    def weights_column(self) -> str | None:
        """Name of the column that holds weights of the contexts; None where they come from elsewhere."""
        return self.weights if isinstance(self.weights, str) else None


@dataclass(frozen=True, slots=True, eq=False)
class CommandLineForm:
    """How an option is written and explained on the command line.

    help: The text that ``--help`` prints for the option.
    metavar: The placeholder that ``--help`` prints for the option's value, such as ``COLUMN``.
    parse: Converts the text that follows the option into its value; None where the text is the value.
    several: Whether the option takes one or more values.
    is_switch: Whether the option takes no value: ``--name``, and ``--no-name`` where it is on by default.
    """

    help: str | None = None
    metavar: str | None = None
    parse: Callable[[str], object] | None = None
    several: bool = False
    is_switch: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Option:
    """One option of :func:`dmlrank.dml_rank`.

    words: The allowed words; empty where the option has no fixed set of words.
    only_words: Whether these words are the only values allowed.
    normaliser: Converts the caller's value into the value that :class:`Options` stores; None where the caller's value
        is stored.
    checker: Called with the name and a normalised value; raises where the value can be seen to be wrong without the
        data.
    field: Field of :class:`Options` that stores the value. An empty text stands for the field with the option's name.
        None stands for no field: the option concerns how the fit is run (``progress``, ``env``) and not what is fitted.
    used_by: The estimators that use the option.
    changes_reading: Whether :meth:`RankResults.update` has to read the data again when the option changes.
    described_as: The field of :class:`dmlrank.fit.estimates.FitDescription` that holds the value unchanged; empty where
        there is no such field.
    argument: How the option is written on the command line; None where the command line lacks the option or spells it
        in another way.
    """

    name: str
    default: object
    words: tuple[str, ...] = ()
    only_words: bool = True
    normaliser: Callable[[Any], object] | None = None
    checker: Callable[[str, object], object] | None = None
    field: str | None = ""
    used_by: tuple[str, ...] = ESTIMATORS
    changes_reading: bool = False
    described_as: str = ""
    argument: CommandLineForm | None = None

    def normalise(self, value: object) -> object:
        """Return the value as :class:`Options` holds it, not yet checked."""
        return value if self.normaliser is None else self.normaliser(value)

    def check(self, value: object) -> None:
        """Raise where a normalised value can be seen to be wrong without the data."""
        if self.words and (self.only_words or isinstance(value, str)):
            check_choice(value, self.words, self.name)
        if self.checker is not None:
            self.checker(self.name, value)

    def is_default(self, value: object) -> bool:
        """Whether a caller's value is the default."""
        return value is self.default or (isinstance(value, str | Real) and bool(value == self.default))


def read_options(call: Mapping[str, object]) -> Options:
    """Return the checked options of a call of :func:`dmlrank.dml_rank`."""
    options = Options(**_normalise_by_field({name: call[name] for name in FIT_OPTIONS}))
    check_options(options)
    return options


def change_options(options: Options, changes: Mapping[str, object]) -> Options:
    """Return a checked copy of the options in which some values are replaced."""
    for name in changes:
        if name not in FIT_OPTIONS:
            raise OptionError(
                f"update has no option {name!r}{nearest(name, FIT_OPTIONS)}; allowed: {listed(FIT_OPTIONS, 30)}"
            )
    changed = replace(options, **_normalise_by_field(changes))
    # The earlier clusters belong to cov_type="cluster"; a change to "robust" alone drops them.
    if changes.get("cov_type") == "robust" and "cov_kwds" not in changes:
        changed = replace(changed, groups=())
    check_options(changed)
    return changed


def read_option(name: str, value: object) -> Any:
    """Return one option as :class:`Options` holds it, checked."""
    option = OPTIONS[name]
    normalised = option.normalise(value)
    option.check(normalised)
    return normalised


def check_options(options: Options) -> None:
    """Raise where an option can be seen to be wrong without the data, or contradicts another option."""
    for option in FIT_OPTIONS.values():
        option.check(getattr(options, option.field or option.name))
    if options.subsample is not None and options.prompts == "fixed":
        raise OptionError(
            f"subsample={options.subsample} was given with prompts='fixed': with subsample, the scores are "
            f"averaged over a random sample of the prompts, and with fixed prompts they are averages over all prompts; "
            f"leave subsample out, or use prompts='random'"
        )
    _check_judge(options)
    _check_adjust(options)
    is_estimated = isinstance(options.propensity, str) and options.propensity == "estimate"
    if options.propensity_formula is not None and not is_estimated:
        raise OptionError(
            "propensity_formula was given with propensities that are not estimated: it names the features of an "
            "estimated propensity; leave it out, or use propensity='estimate'"
        )
    if options.cov_type == "cluster" and not options.groups:
        raise OptionError(
            "cov_type='cluster' was given without clusters; name their columns with cov_kwds={'groups': column} or "
            "cov_kwds={'groups': [prompt, annotator]}"
        )
    if options.cov_type != "cluster" and options.groups:
        raise OptionError(
            f"cov_kwds groups {listed(options.groups)} are used with cov_type='cluster' only; add cov_type='cluster', "
            f"or leave cov_kwds out"
        )


def _normalise_by_field(values: Mapping[str, object]) -> dict[str, Any]:
    """Return a dictionary from fields of :class:`Options` to normalised values, from the caller's values by option."""
    return {OPTIONS[name].field or name: OPTIONS[name].normalise(value) for name, value in values.items()}


def _check_judge(options: Options) -> None:
    """Raise where ``judge_as`` contradicts ``judge``, ``mu`` or ``learner``."""
    is_used = options.estimator in OPTIONS["judge_as"].used_by
    if options.judge is None and options.judge_as != "two-stage" and is_used:
        raise OptionError(
            f"judge_as={options.judge_as!r} was given without a judge: it says how a judge is used; pass judge=, or "
            f"leave judge_as out"
        )
    if options.judge_as == "features" and (options.mu is not None or not isinstance(options.learner, str)):
        other = "mu=" if options.mu is not None else "learner="
        raise OptionError(
            f"judge_as='features' was given with {other}: it makes verdicts features of LightGBM, which {other} "
            f"replaces; leave {other} out, or use judge_as='two-stage'"
        )


def _check_adjust(options: Options) -> None:
    """Raise where an adjustment for style contradicts another option."""
    if options.adjust is None:
        return
    kind = type(options.adjust).__name__
    if options.judge is not None:
        raise OptionError(
            f"adjust={kind}(...) was given with judge=: verdicts of a judge follow style, too, and would have to be "
            f"modelled given style at every judged pair; leave judge= out, or leave adjust= out"
        )
    if isinstance(options.adjust, EqualStyle) and options.subsample is not None:
        raise OptionError(
            "subsample= was given with adjust=EqualStyle(...): the scores at equal style are computed for all prompts "
            "in little time, and are not averaged over a sample; leave subsample= out"
        )
    if isinstance(options.adjust, EqualStyle) and options.average == "preferences":
        raise OptionError(
            "average='preferences' was given with adjust=EqualStyle(...): slopes on style are slopes of the link of "
            "preferences given prompt and style, whose mean is the average of scores; use average='scores', or "
            "adjust=BalancedStyle(...)"
        )
    is_smooth = isinstance(options.adjust, BalancedStyle) and options.adjust.weights == "smooth"
    if is_smooth and not isinstance(options.learner, str):
        raise OptionError(
            "learner= was given with BalancedStyle(weights='smooth'): votes count in part, and a learner of the caller "
            "is trained on whole votes; use weights='band', or leave learner= out"
        )
    if isinstance(options.adjust, BalancedStyle) and options.mu is not None:
        raise OptionError(
            "mu= was given with adjust=BalancedStyle(...): the supplied probabilities are those of all battles, and "
            "the adjustment needs those of battles of equal style; leave mu= out, or use adjust=EqualStyle(...)"
        )


# --- the table, in the order of the signature of dml_rank -------------------------------------------------------------

OPTION_TABLE: tuple[Option, ...] = (
    Option(
        "functional",
        "borda",
        argument=CommandLineForm("borda, bt, rank_centrality, dominance or softmin (default borda)"),
    ),
    Option(
        "average",
        "scores",
        get_args(Average),
        used_by=_WITH_JUDGES,
        described_as="average",
        argument=CommandLineForm(
            "what is averaged over prompts: scores (default), or preferences before scores are computed"
        ),
    ),
    Option(
        "context",
        None,
        normaliser=context_columns,
        changes_reading=True,
        described_as="context",
        argument=CommandLineForm("columns that identify a prompt", "COLUMN", several=True),
    ),
    Option(
        "propensity",
        "estimate",
        used_by=_WITH_FIRST_STAGES,
        changes_reading=True,
        argument=CommandLineForm("estimate, marginal or the name of a column (default estimate)"),
    ),
    Option(
        "propensity_formula",
        None,
        checker=check_formula,
        used_by=_WITH_FIRST_STAGES,
        argument=CommandLineForm("features of the estimated propensity (default: the formula's)", "'~ FEATURES'"),
    ),
    Option(
        "estimator", "debiased", ESTIMATORS, argument=CommandLineForm("how scores are estimated (default debiased)")
    ),
    Option(
        "judge",
        None,
        normaliser=as_judges,
        used_by=_WITH_JUDGES,
        argument=CommandLineForm(
            "columns of judges' verdicts: one per judge, or the probabilities p_a p_b p_tie of one judge",
            "COLUMN",
            several=True,
        ),
    ),
    Option(
        "judge_as",
        "two-stage",
        ("two-stage", "features"),
        used_by=_WITH_FIRST_STAGES,
        argument=CommandLineForm("how verdicts are used (default two-stage): two-stage, or as features"),
    ),
    Option(
        "adjust",
        None,
        normaliser=as_adjustment,
        checker=check_adjustment,
        used_by=("debiased",),
        changes_reading=True,
        argument=CommandLineForm(
            "scores of answers of equal style: columns of style differences, first answer minus second answer",
            "'~ COLUMN + COLUMN'",
        ),
    ),
    Option("mu", None, used_by=_WITH_FIRST_STAGES),
    Option(
        "learner",
        "auto",
        ("auto", "lightgbm"),
        only_words=False,
        # A copy, because the caller may change the classifier later, and an update of this fit has to use it as it was.
        normaliser=unfitted_copy,
        used_by=_WITH_FIRST_STAGES,
        argument=CommandLineForm("smooth main effects, then LightGBM (auto, the default), or LightGBM alone"),
    ),
    Option(
        "n_folds",
        5,
        checker=at_least(2),
        used_by=_WITH_FIRST_STAGES,
        argument=CommandLineForm("folds of the cross-fitting (default 5)", "N", int),
    ),
    Option(
        "n_rep",
        1,
        checker=at_least(1),
        used_by=_WITH_FIRST_STAGES,
        described_as="n_rep",
        argument=CommandLineForm("repetitions with other folds (default 1)", "N", int),
    ),
    Option("tune", "cv", used_by=_WITH_FIRST_STAGES),
    Option(
        "position_bias",
        "auto",
        checker=check_position_bias,
        used_by=_WITH_FIRST_STAGES,
        argument=CommandLineForm("whether display order matters (default auto)", "auto|yes|no", yes_no_or_word),
    ),
    Option(
        "graph",
        "observed",
        ("observed", "complete"),
        only_words=False,
        argument=CommandLineForm("pairs that the scores use: the compared ones (observed, the default), or all"),
    ),
    Option(
        "min_labels",
        10,
        checker=at_least(1),
        used_by=_WITH_FIRST_STAGES,
        argument=CommandLineForm(
            "labels that a compared pair needs, in each order where order matters (default 10)", "N", int
        ),
    ),
    Option(
        "component",
        "all",
        ("all", "largest"),
        argument=CommandLineForm("rank all models (default), or the largest connected part of the graph"),
    ),
    Option(
        "min_comparisons",
        0,
        checker=at_least(0),
        argument=CommandLineForm("drop models with fewer labelled prompts (default 0)", "N", int),
    ),
    Option(
        "edge_weights",
        "equal",
        ("equal", "counts"),
        only_words=False,
        used_by=_WITH_FIRST_STAGES,
        argument=CommandLineForm("weights of pairs: equal (default), or their numbers of labels"),
    ),
    Option(
        "weights",
        None,
        checker=check_weights,
        used_by=_WITH_FIRST_STAGES,
        changes_reading=True,
        argument=CommandLineForm("weights of prompts in the target population", "COLUMN"),
    ),
    Option("categories", None, checker=check_categories, changes_reading=True),
    Option(
        "category_weights",
        "half",
        ("half", "paper"),
        only_words=False,
        argument=CommandLineForm("how much ties count (default half)"),
    ),
    Option(
        "prompts",
        "random",
        PROMPTS,
        used_by=_MEANS_OVER_PROMPTS,
        described_as="prompts",
        argument=CommandLineForm(
            "whether intervals are about new prompts (random, the default) or these prompts alone"
        ),
    ),
    Option(
        "floor",
        "auto",
        checker=check_floor,
        used_by=_WITH_FIRST_STAGES,
        argument=CommandLineForm(
            "smallest probability of a category in mu (default auto: selected by log-loss)", "P", number_or_word
        ),
    ),
    Option(
        "subsample",
        None,
        checker=at_least(2, or_none=True),
        used_by=_WITH_FIRST_STAGES,
        argument=CommandLineForm(
            "number of sampled prompts over which the scores are averaged (default all)", "M", int
        ),
    ),
    Option(
        "cov_type",
        "robust",
        COV_TYPES,
        normaliser=cov_type_of,
        described_as="cov_type",
        argument=CommandLineForm("robust (default): prompts are independent; cluster: clusters of prompts are"),
    ),
    Option("cov_kwds", None, normaliser=cluster_groups, field="groups", changes_reading=True),
    Option(
        "missing",
        "raise",
        get_args(Missing),
        changes_reading=True,
        argument=CommandLineForm("raise an error for rows with missing values (default), drop them, or keep them"),
    ),
    Option(
        "votes",
        "mean",
        get_args(Votes),
        changes_reading=True,
        argument=CommandLineForm("how repeated votes on a prompt and pair count: their mean (default), or the first"),
    ),
    Option("unlabelled", None, changes_reading=True),
    Option(
        "alpha",
        0.05,
        checker=check_alpha_option,
        argument=CommandLineForm("one minus the confidence level (default 0.05)", "A", float),
    ),
    Option(
        "rng",
        None,
        normaliser=resolve_seed,
        field="seed",
        described_as="seed",
        argument=CommandLineForm("seed of all draws (default: drawn and printed)", "SEED", int),
    ),
    Option(
        "n_jobs",
        None,
        checker=at_least(1, or_none=True),
        argument=CommandLineForm("threads (default: all cores)", "N", int),
    ),
    Option("progress", False, field=None, argument=CommandLineForm("show progress on standard error", is_switch=True)),
    Option("executor", None, field=None),
    Option("env", None, field=None),
)

# The options of the table by name: first all of them, then those that are stored in Options.
OPTIONS: dict[str, Option] = {option.name: option for option in OPTION_TABLE}
FIT_OPTIONS: dict[str, Option] = {name: option for name, option in OPTIONS.items() if option.field is not None}
