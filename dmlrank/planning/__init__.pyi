from .before_data import sample_size
from .plan import Plan
from .rounds import mixture_propensity, repeated_propensity

__all__ = ["Plan", "mixture_propensity", "repeated_propensity", "sample_size"]
