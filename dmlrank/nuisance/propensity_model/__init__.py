"""pi, the probabilities that pairs are labelled."""
