from .plan import Plan
from .sizes_and_rounds import mixture_propensity, repeated_propensity, sample_size

__all__ = ["Plan", "mixture_propensity", "repeated_propensity", "sample_size"]
