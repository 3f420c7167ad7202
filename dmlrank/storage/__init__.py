"""Results in files: JSON without data or code."""
