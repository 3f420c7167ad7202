from .pairs_from_scores import pairs_from_rankings, pairs_from_scores
from .style_columns import style_columns

__all__ = ["pairs_from_rankings", "pairs_from_scores", "style_columns"]
