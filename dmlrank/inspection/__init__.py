"""A look at data before a fit: what was read, what is compared, what may go wrong, and what a fit would cost."""
