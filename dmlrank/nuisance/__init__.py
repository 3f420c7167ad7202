"""First stages: the outcome model mu (preference probabilities) and the propensity model pi."""
