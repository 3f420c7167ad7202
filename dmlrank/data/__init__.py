"""From a frame and a formula to arrays: everything that knows names and rows."""
