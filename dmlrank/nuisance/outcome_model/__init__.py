"""The outcome model mu: probabilities of the labels."""
