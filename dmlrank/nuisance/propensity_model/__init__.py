"""The propensity model pi: the probability that a pair of items is labelled in a context."""
