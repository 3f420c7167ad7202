"""Reading a frame as a formula and options say: columns and rows become arrays of contexts, pairs and labels."""
