"""From influence values to statements: covariances, simultaneous intervals, tests and regions."""
