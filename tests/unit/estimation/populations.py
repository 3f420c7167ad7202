"""Small discrete populations that can be enumerated: every prompt, every selection of pairs, every label.

A population is a list of atoms with probabilities. A submodel moves the probabilities; the score of the submodel and
the parameter along it are computed from the atoms alone, by counting, so that nothing of the package is asked what it
is to be checked for.
"""

import itertools
from dataclasses import dataclass

import numpy as np

STEP = 1e-4


@dataclass(frozen=True)
class Atom:
    """One thing that can be observed: a prompt, and labels ``((first, second), category)``."""

    prompt: int
    votes: tuple[tuple[tuple[int, int], int], ...]


class Population:
    """Prompts with probabilities, a selection of pairs given the prompt, and independent labels given both.

    selection (X, number of patterns): Probability of each pattern, a tuple of ordered pairs.
    """

    def __init__(self, rng, mu, several=True):
        self.mu = mu
        n_prompts, self.n_items, _, self.n_categories = mu.shape
        pairs = list(itertools.permutations(range(self.n_items), 2))
        self.patterns = [(), *((pair,) for pair in pairs)]
        if several:
            chosen = [rng.choice(len(pairs), size=size, replace=False) for size in (2, 2, 3)]
            # Both orders of one pair, too: labelled together they are two labels of it.
            self.patterns += [tuple(pairs[p] for p in some) for some in chosen] + [((0, 1), (1, 0))]
        self.share = rng.dirichlet(np.full(n_prompts, 5.0))
        even = 1 / len(self.patterns)
        self.selection = 0.9 * rng.dirichlet(np.full(len(self.patterns), 2.0), size=n_prompts) + 0.1 * even
        self.atoms = [
            (Atom(x, tuple(zip(pattern, labels, strict=True))), number)
            for x in range(n_prompts)
            for number, pattern in enumerate(self.patterns)
            for labels in itertools.product(range(self.n_categories), repeat=len(pattern))
        ]

    @property
    def prompt(self):
        """Prompt of every atom."""
        return np.array([atom.prompt for atom, _ in self.atoms])

    def probability(self, share=None, selection=None, mu=None):
        """Probability of every atom, of this population or of one with other parts."""
        share = self.share if share is None else share
        selection = self.selection if selection is None else selection
        mu = self.mu if mu is None else mu
        made = []
        for atom, pattern in self.atoms:
            p = share[atom.prompt] * selection[atom.prompt, pattern]
            for (j, k), c in atom.votes:
                p *= mu[atom.prompt, j, k, c]
            made.append(p)
        return np.array(made)

    def propensity(self):
        """Probability that an ordered pair is labelled, (X, K, K)."""
        pi = np.zeros(self.mu.shape[:3])
        for number, pattern in enumerate(self.patterns):
            for j, k in pattern:
                pi[:, j, k] += self.selection[:, number]
        return pi

    def counted(self, probability, ordered=True):
        """Shares of prompts, (X,), and labels given that there is one, (X, K, K, C), counted from the atoms."""
        share, table = np.zeros(len(self.share)), np.zeros(self.mu.shape)
        for (atom, _), p in zip(self.atoms, probability, strict=True):
            share[atom.prompt] += p
            for (j, k), c in atom.votes:
                table[atom.prompt, j, k, c] += p
                if not ordered:
                    table[atom.prompt, k, j, [1, 0, *range(2, self.n_categories)][c]] += p
        total = table.sum(axis=-1, keepdims=True)
        return share, table / np.where(total > 0, total, 1.0)

    def votes(self):
        """Context (atom), first, second and label of every vote."""
        rows = [(i, j, k, c) for i, (atom, _) in enumerate(self.atoms) for (j, k), c in atom.votes]
        return np.array(rows).T


def data_of(population, votes, make_data):
    """Preference data whose contexts are the atoms; ``votes`` are context, first, second and label of each."""
    K, C = population.n_items, population.n_categories
    return make_data(*votes, n_items=K, n_categories=C, n_contexts=len(population.atoms))


def random_direction(rng, probability):
    """A bounded score of a saturated submodel: mean zero under the population."""
    score = rng.uniform(-1, 1, size=len(probability))
    return score - probability @ score


def submodels(theta, rng, base, directions=8):
    """Scores of submodels in random directions, and the derivative of a function of the probabilities along each."""
    for _ in range(directions):
        score = random_direction(rng, base.ravel())
        yield score, slope(lambda h, s=score: theta(base * (1 + h * s.reshape(base.shape))))


def slope(parameter):
    """Derivative at zero of a function of one number, with an error of the fourth order."""
    one, two = ((parameter(h) - parameter(-h)) / (2 * h) for h in (STEP, 2 * STEP))
    return (4 * one - two) / 3
