"""What an extension of a fit did: which rows came, whether the first stages were trained again, and why."""

from __future__ import annotations

from dataclasses import dataclass

# The first stages are trained again when there are this many times the votes of the last training. Until then the first
# stages were trained on at least 80 % of the votes, the share that trains the model of a fold where there are five
# folds. Effects of models that entered later are fitted again when these models have this many times the votes from
# which their effects were last fitted.
GROWTH = 1.25


@dataclass(frozen=True, slots=True)
class Extension:
    """How rows were added to a fit by :meth:`dmlrank.RankResults.extend`.

    The attributes up to ``remarks`` are about the last call of ``extend``. The attributes from ``number`` on are about
    all rows since the first stages were trained.

    Attributes
    ----------
    rows_added : int
        Number of rows that were passed.
    contexts_new : int
        Contexts that the fit did not have.
    contexts_with_new_votes : int
        Contexts of the fit that got further votes.
    models_new : tuple of str
        Models that were not ranked before.
    refitted : bool
        Whether the first stages were trained again on all rows.
    reason : str
        Why the first stages were trained again, or why not.
    clusters_returning : int
        Clusters of the fit that got further contexts or votes; 0 without clusters.
    remarks : tuple of str
        Further facts about the new rows, such as columns that only some of the rows have.
    number : int
        Number of extensions since the first stages were trained; 0 after a training.
    rows_since_training : int
        Rows that came after the training.
    votes_at_training : int
        Votes on ranked models on which the first stages were trained.
    units_at_training : int
        Contexts, or clusters, with these votes.
    contexts_of_no_fold : int
        Contexts that are out of sample for the models of all folds, so that the mean of these models predicts them.
    contexts_of_a_fold : int
        Contexts that are out of sample for the model of their fold alone.
    models_since_training : tuple of str
        Models that entered after the training, whose effects were added to the trained first stages.
    votes_of_new_models : int
        Votes on these models from which their effects were last fitted.
    loss_z : float
        By how many standard errors the held-out log-loss of the labels since the training is above that of the earlier
        labels of the same pairs; NaN where it cannot be tested.
    loss_p : float
        p-value of this test, which holds for all extensions since the training together; NaN where there is no test.
    """

    rows_added: int
    contexts_new: int
    contexts_with_new_votes: int
    models_new: tuple[str, ...]
    refitted: bool
    reason: str
    clusters_returning: int = 0
    remarks: tuple[str, ...] = ()
    number: int = 0
    rows_since_training: int = 0
    votes_at_training: int = 0
    units_at_training: int = 0
    contexts_of_no_fold: int = 0
    contexts_of_a_fold: int = 0
    models_since_training: tuple[str, ...] = ()
    votes_of_new_models: int = 0
    loss_z: float = float("nan")
    loss_p: float = float("nan")
