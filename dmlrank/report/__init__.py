"""What a person reads: summaries, frames and plots."""
