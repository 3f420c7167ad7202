from .before_data import sample_size
from .criteria import Against, Top
from .plan import Plan
from .rounds import mixture_propensity, repeated_propensity

__all__ = ["Against", "Plan", "Top", "mixture_propensity", "repeated_propensity", "sample_size"]
