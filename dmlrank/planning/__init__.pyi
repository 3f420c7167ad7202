from .plan import Plan
from .plan_options import Against, Top
from .rounds import mixture_propensity, repeated_propensity

__all__ = ["Against", "Plan", "Top", "mixture_propensity", "repeated_propensity"]
