"""First stages of scores at equal style: regressions on items, context features and the style of the answers."""
