"""First stages: preference probabilities and selection propensities."""
