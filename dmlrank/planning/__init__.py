"""What to label next: from probabilities and a budget to a plan that annotators can carry out."""
