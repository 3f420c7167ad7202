"""The page of a result: one HTML file with table, plots and tests, which needs no network."""
