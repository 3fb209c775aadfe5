"""What the sequences of one pass draft: asked of the drafter, then cut to what is worth its time."""

from __future__ import annotations

from collections.abc import Sequence as Many
from dataclasses import dataclass

from outrider.loop.draft.base import Ask, Drafter
from outrider.loop.draft.constrained import begin_with, cut
from outrider.loop.sequence import Sequence
from outrider.models.base import Target
from outrider.planner.plan import Plan, can_pay
from outrider.planner.planner import Planner
from outrider.types import DraftTree, Guarantee


@dataclass(slots=True)
class Proposal:
    """What one sequence that is ready to emit drafts."""

    tree: DraftTree
    asked: bool = False
    """True when the drafter was asked for it."""
    price: float = 0.0
    """The tokens that could have been had in the time of the draft and of its nodes."""


def propose(
    target: Target, drafter: Drafter, sequences: Many[Sequence], planner: Planner
) -> list[Proposal | None]:
    """Return a draft for every sequence that is ready to emit; None for those still reading their prompt.

    No draft is deeper than what may still be emitted, so none reaches past the context or the length asked
    for. Where a grammar forces tokens, they are drafted first; what it refuses is not drafted. Of what all
    sequences draft, the pass holds what brings the most tokens for its time (`Plan.share`).
    """
    ready = [index for index, sequence in enumerate(sequences) if sequence.pending <= sequence.prompt_rows]
    proposals: list[Proposal | None] = [None] * len(sequences)
    found = {index: Proposal(DraftTree()) for index in ready}
    for index, proposal in found.items():
        proposals[index] = proposal
    if not drafter.speculates:
        return proposals
    may = planner.allowed([sequences[index].breaker for index in ready])
    allowed = {index for index, draft in zip(ready, may, strict=True) if draft}
    # A constraint may force tokens whether or not the drafter is asked.
    able = [index for index in ready if index in allowed or sequences[index].processing is not None]
    if not able:
        return proposals
    plan = _plan(sequences, ready, planner)
    asks = _asks(target, drafter, sequences, able, planner, plan)
    prices = {index: _price_of_ask(plan, planner, sequences[index]) for index in asks}
    asked = [i for i, ask in asks.items() if i in allowed and can_pay(ask.costs, prices[i])]
    trees = drafter.propose([asks[index] for index in asked]) if asked else []
    for index, tree in zip(asked, trees, strict=True):
        assert len(tree) <= asks[index].budget, f"{drafter.name} kept to its budget"
        found[index].tree, found[index].asked = tree, True
    for index, ask in asks.items():
        found[index].tree = cut(begin_with(ask, found[index].tree), ask.processing)
    if plan is not None:
        drafts = [(sequences[index], found[index]) for index in asks]
        _share(plan, drafts)
        _price(plan, drafts)
        for index in asked:
            found[index].price += prices[index]
    return proposals


def _plan(sequences: Many[Sequence], ready: Many[int], planner: Planner) -> Plan | None:
    rows = sum(min(sequence.pending, sequence.prompt_rows) for sequence in sequences)
    return planner.plan([sequences[index].cache.length for index in ready], rows - len(ready))


def _asks(
    target: Target,
    drafter: Drafter,
    sequences: Many[Sequence],
    able: Many[int],
    planner: Planner,
    plan: Plan | None,
) -> dict[int, Ask]:
    """Return what each sequence that may draft asks for, by its place in the pass."""
    # Drafts that were drawn are not cut afterwards: what each of them costs goes by all of them together.
    drawing = sum(_draws(drafter, sequences[index]) for index in able)
    asks = {}
    for index in able:
        sequence = sequences[index]
        nodes = min(planner.budget, sequence.room - 1)
        if sequence.budget is not None:
            nodes = min(nodes, sequence.budget)
        if nodes <= 0:
            continue
        peers = drawing if _draws(drafter, sequence) else 1
        context = sequence.cache.length
        asks[index] = Ask(
            state=sequence.draft_state,
            tokens=sequence.tokens,
            budget=nodes,
            branch=target.can_branch and sequence.rule.serves_trees,
            params=sequence.params,
            processing=sequence.processing,
            draws=sequence.draws.for_draft(sequence.rule, len(sequence.tokens)),
            costs=() if plan is None else plan.costs(nodes, context=context, drafting=peers),
            siblings=sequence.rule.siblings,
            wants_laws=sequence.rule.reads_laws,
            forced=sequence.processing.forced(nodes) if sequence.processing else (),
            cache=sequence.cache,
        )
    return asks


def _draws(drafter: Drafter, sequence: Sequence) -> bool:
    """Tell whether what a sequence drafts is drawn, under a rule that minds which of it is left out."""
    same_tokens = sequence.rule.guarantee is Guarantee.SAME_TOKENS
    return drafter.has_law and not sequence.params.greedy and not same_tokens


def _share(plan: Plan, drafts: Many[tuple[Sequence, Proposal]]) -> None:
    """Cut the trees to the nodes that the pass holds, where they tell their chances and may be cut."""
    free = [
        proposal
        for sequence, proposal in drafts
        if proposal.tree.chances is not None
        and (proposal.tree.laws is None or sequence.rule.guarantee is Guarantee.SAME_TOKENS)
    ]
    fixed = sum(len(proposal.tree) for _, proposal in drafts) - sum(len(proposal.tree) for proposal in free)
    held = plan.share([proposal.tree.chances or () for proposal in free], fixed)
    for proposal, nodes in zip(free, held, strict=True):
        proposal.tree = proposal.tree.subtree(nodes)


def _price(plan: Plan, drafts: Many[tuple[Sequence, Proposal]]) -> None:
    """Tell every sequence its part of what the nodes cost."""
    bill = plan.bill([(len(proposal.tree), sequence.cache.length) for sequence, proposal in drafts])
    for (_, proposal), price in zip(drafts, bill, strict=True):
        proposal.price = price


def _price_of_ask(plan: Plan | None, planner: Planner, sequence: Sequence) -> float:
    """Return what it costs to make a draft, in tokens.

    That is a measurement, which differs from run to run. It must not decide what becomes of a text that is
    the same in law only, and by its seed.
    """
    return planner.price_of_ask(plan) if sequence.rule.guarantee is Guarantee.SAME_TOKENS else 0.0
