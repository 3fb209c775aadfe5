from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from outrider.loop.draft.tree import Chain, grow
from outrider.types import DraftTree


def falling(chain: list[tuple[int, int]]) -> Chain:
    scores = sorted((score / 16 for _, score in chain), reverse=True)
    return [token for token, _ in chain], scores


CHAINS = st.lists(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 16)), max_size=4).map(falling), max_size=4
)


def paths(tree: DraftTree) -> list[tuple[int, ...]]:
    found: list[tuple[int, ...]] = []
    for token, parent in zip(tree.tokens, tree.parents, strict=True):
        found.append((*(found[parent] if parent >= 0 else ()), token))
    return found


def scored_prefixes(chains: list[Chain]) -> dict[tuple[int, ...], float]:
    best: dict[tuple[int, ...], float] = {}
    for tokens, scores in chains:
        for depth, score in enumerate(scores):
            prefix = tuple(tokens[: depth + 1])
            best[prefix] = max(score, best.get(prefix, 0.0))
    return best


def test_nothing_grows_from_nothing() -> None:
    assert grow([], 4) == DraftTree()
    assert grow([((), ())], 4) == DraftTree()


def test_a_single_chain_stays_a_chain_cut_at_the_budget() -> None:
    assert grow([((5, 6, 7), (0.9, 0.5, 0.4))], 2) == DraftTree.chain((5, 6))


def test_chains_share_the_nodes_they_begin_with() -> None:
    tree = grow([((5, 6, 7), (0.9, 0.5, 0.4)), ((5, 8), (0.8, 0.45))], 8)
    assert tree == DraftTree((5, 6, 8, 7), (-1, 0, 0, 1))


def test_siblings_stand_best_first_and_equals_in_the_order_they_were_named() -> None:
    tree = grow([((1,), (0.2,)), ((2,), (0.6,)), ((3,), (0.2,))], 8)
    assert tree == DraftTree((2, 1, 3), (-1, -1, -1))


def test_a_node_takes_the_highest_score_that_names_it() -> None:
    chains = [((1,), (0.3,)), ((2,), (0.4,)), ((1,), (0.5,))]
    assert grow(chains, 1).tokens == (1,)


def test_nodes_that_are_not_worth_their_time_are_left_out() -> None:
    chains = [((5, 6, 7), (0.9, 0.5, 0.4)), ((9,), (0.45,))]
    assert grow(chains, 4, (1.0, 1.1, 1.2, 2.0, 3.0)) == DraftTree.chain((5, 6))
    assert grow(chains, 4, (1.0, 2.0, 3.0, 4.0, 5.0)) == DraftTree()


@given(CHAINS, st.integers(0, 12))
def test_the_tree_holds_distinct_prefixes_of_the_chains_within_the_budget(
    chains: list[Chain], budget: int
) -> None:
    known = scored_prefixes(chains)
    held = paths(grow(chains, budget))
    assert len(held) == len(set(held)) == min(budget, len(known))
    assert set(held) <= set(known)


@given(CHAINS, st.integers(0, 4))
def test_no_other_tree_of_that_size_has_a_higher_total_score(chains: list[Chain], budget: int) -> None:
    known = scored_prefixes(chains)
    held = paths(grow(chains, budget))
    trees = (
        choice
        for choice in combinations(known, len(held))
        if all(len(path) == 1 or path[:-1] in choice for path in choice)
    )
    best = max(sum(known[path] for path in tree) for tree in trees)
    assert sum(known[path] for path in held) == best
