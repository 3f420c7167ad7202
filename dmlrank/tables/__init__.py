"""The table class of every result, and the forms in which a table is written."""
