"""Results in files: JSON without data or code, and pickles with everything."""
