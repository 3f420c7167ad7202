"""From first stages to influence values: cross-fitting, debiased and plug-in estimators."""
