"""Small tools that know nothing of statistics."""
