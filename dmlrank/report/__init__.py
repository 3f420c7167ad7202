"""What a person reads: summary tables and tidy frames."""
