"""mu, the probabilities of the labels."""
