from . import data, datasets, functionals, planning
from ._utils.tasks_and_threads import computing
from ._utils.versions import show_versions
from ._version import __version__
from .api import check, dml_rank, read_json
from .data.graph import Graph
from .datasets.eval_logs import read_log
from .exceptions import DmlrankError, DmlrankWarning
from .functionals import CategoryWeights
from .nuisance.boosting import RandomSearch
from .options import EqualStyle, EqualTasks, Learning, Pairs
from .planning.design import design
from .results.comparison import compare
from .results.rank_results import RankResults

__all__ = [
    "CategoryWeights",
    "DmlrankError",
    "DmlrankWarning",
    "EqualStyle",
    "EqualTasks",
    "Graph",
    "Learning",
    "Pairs",
    "RandomSearch",
    "RankResults",
    "__version__",
    "check",
    "compare",
    "computing",
    "data",
    "datasets",
    "design",
    "dml_rank",
    "functionals",
    "planning",
    "read_json",
    "read_log",
    "show_versions",
]
