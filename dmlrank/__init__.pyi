from . import datasets, functionals
from ._utils.versions import show_versions
from ._version import __version__
from .api import check, dml_rank, load, read_json
from .data.graph import Graph
from .data.pairs_from_scores import pairs_from_rankings, pairs_from_scores, pass_at_k
from .data.style_columns import style_columns
from .datasets.eval_logs import read_log
from .exceptions import DmlrankError, DmlrankWarning
from .functionals import CategoryWeights
from .nuisance.boosting import RandomSearch
from .options import BalancedStyle, EqualStyle, EqualTasks
from .planning.design import design
from .planning.plan import Plan
from .planning.plan_options import Against, Top
from .planning.rounds import mixture_propensity, repeated_propensity
from .results.comparison import compare
from .results.rank_results import RankResults

__all__ = [
    "Against",
    "BalancedStyle",
    "CategoryWeights",
    "DmlrankError",
    "DmlrankWarning",
    "EqualStyle",
    "EqualTasks",
    "Graph",
    "Plan",
    "RandomSearch",
    "RankResults",
    "Top",
    "__version__",
    "check",
    "compare",
    "datasets",
    "design",
    "dml_rank",
    "functionals",
    "load",
    "mixture_propensity",
    "pairs_from_rankings",
    "pairs_from_scores",
    "pass_at_k",
    "read_json",
    "read_log",
    "repeated_propensity",
    "show_versions",
    "style_columns",
]
