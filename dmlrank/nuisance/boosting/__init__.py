"""LightGBM boosters: bins, parameters, early stopping, tuning and training."""
