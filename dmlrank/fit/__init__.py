"""The fit: the steps of an estimation in order, their cache, and the estimates that a result keeps."""
