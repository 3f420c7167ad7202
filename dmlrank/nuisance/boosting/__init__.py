"""LightGBM: trained, stopped early, tuned."""
