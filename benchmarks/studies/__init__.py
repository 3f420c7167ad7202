"""The studies behind the figures in the pages: one runner, and a module with what differs for each of them."""
