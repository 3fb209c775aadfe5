"""Keeps what one pass drafted and what became of it, where somebody wants to look at it."""

from __future__ import annotations

from collections.abc import Sequence

from outrider.sampling.law import LogitLaws
from outrider.sampling.threads import one_thread
from outrider.types import DraftTree, PassTrace, Scored, Trace


@one_thread()
def trace_of(
    scored: Scored, path: Sequence[int], emitted: Sequence[int], authors: Sequence[str], wanted: Trace
) -> PassTrace:
    """Return the trace of a pass whose emitted tokens are those of the nodes `path`, and maybe one more."""
    tree, laws = scored.tree, scored.laws
    assert isinstance(laws, LogitLaws), "what the loop scores has logits"
    rows = [0, *(node + 1 for node in path)][: len(emitted)]
    return PassTrace(
        tokens=tree.tokens,
        parents=tree.parents,
        authors=tuple(authors),
        draft_probabilities=_drafted(tree),
        probabilities=_of_nodes(tree, laws) if wanted is Trace.TREES else None,
        path=tuple(path),
        emitted=tuple(emitted),
        emitted_probabilities=tuple(
            laws.own(row, (token,))[0] for row, token in zip(rows, emitted, strict=True)
        ),
    )


def _of_nodes(tree: DraftTree, laws: LogitLaws) -> tuple[float, ...]:
    """Return the target's probability of each node, a row of logits for all children of one."""
    found = [0.0] * len(tree)
    for parent in sorted(set(tree.parents)):
        children = tree.children(parent)
        for child, chance in zip(
            children, laws.own(parent + 1, [tree.tokens[child] for child in children]), strict=True
        ):
            found[child] = chance
    return tuple(found)


def _drafted(tree: DraftTree) -> tuple[float | None, ...]:
    found: list[float | None] = []
    for node, (token, parent) in enumerate(zip(tree.tokens, tree.parents, strict=True)):
        law = tree.law(node)
        if law is not None:
            found.append(float(law[token]))
        elif tree.chances is None:
            found.append(None)
        else:
            before = 1.0 if parent < 0 else tree.chances[parent]
            found.append(min(1.0, tree.chances[node] / before) if before > 0 else 0.0)
    return tuple(found)
