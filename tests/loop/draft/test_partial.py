"""Passes that leave layers out, on the target's own cache: seen by later ones, forgotten afterwards."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from outrider.cache.prefix import PrefixStore
from outrider.engine.engine import Engine
from outrider.loop.draft.base import Ask, Drafter
from outrider.loop.draft.held import Branches, Held, TreeReader
from outrider.loop.draft.layerskip import LayerSkipDrafter
from outrider.loop.draft.lm import ModelDrafter
from outrider.loop.draft.none import NoDrafter
from outrider.loop.draft.partial import PartialModel
from outrider.loop.verify.pack import Part, pack
from outrider.models.base import LoadedModel
from outrider.models.decoder import Decoder
from outrider.models.toy import ToyTarget, ToyTokenizer
from outrider.sampling.keyed import SharedDraws
from outrider.sampling.params import SamplingParams
from outrider.types import DraftTree
from tiny import RandomSource, tiny_config

CONFIG = tiny_config(layers=4, window=13)
TEXT = [(7 * i + i // 5) % CONFIG.vocab_size for i in range(150)]
GREEDY = SamplingParams()
BUDGET = 9


@pytest.fixture
def model(decoder_class: type) -> Any:
    more = {"device": torch.device("cpu")} if decoder_class is Decoder else {}
    return decoder_class(CONFIG, RandomSource(CONFIG), weights="fp32", **more)


def run(model: Any, cache: Any, tokens: list[int], tree: DraftTree | None = None) -> torch.Tensor:
    logits = model.forward(pack([Part(cache.length, tokens, tree or DraftTree(), True)]), [cache])
    cache.keep(range(len(tokens)))
    return logits


def free(drafter: LayerSkipDrafter) -> LayerSkipDrafter:
    """Take its passes as free, so that it drafts all that it may."""
    for inner in drafter._drafters:
        if isinstance(inner, ModelDrafter):
            inner.cost = 0.0
        else:
            inner._cost = 0.0
    return drafter


def drafted(model: Any, cache: Any, options: dict[str, Any], text: list[int] = TEXT) -> DraftTree:
    """Draft after `text`, of which the cache holds all but the last token."""
    drafter = free(LayerSkipDrafter.build(model, None, options))
    asked = Ask(drafter.open(text), text, BUDGET, True, GREEDY, SharedDraws(1, 0, len(text)), cache=cache)
    [tree] = drafter.propose([asked])
    return tree


@pytest.mark.parametrize(
    "options", [{"skip": "1,2"}, {"skip": "0", "width": 3}, {"skip": "3", "tree": "3,2"}]
)
def test_a_draft_leaves_the_cache_and_those_that_share_its_pages_as_they_were(
    model: Any, options: dict[str, Any]
) -> None:
    """Bit for bit, in the middle of a page that another cache holds, too."""
    first = model.new_cache()
    run(model, first, TEXT)
    sharing = model.new_cache(first.pages(2))
    sharing.truncate(70)
    untouched = model.new_cache()
    run(model, untouched, TEXT[:70])
    told = sharing.bytes_with(1 + BUDGET)
    tree = drafted(model, sharing, options, TEXT[:71])
    assert len(tree) > 1
    assert sharing.length == 70
    assert sharing.nbytes <= told
    checked = DraftTree((3, 5, 8, 9), (-1, 0, 0, -1))
    assert torch.equal(run(model, sharing, [11], checked), run(model, untouched, [11], checked))
    again = model.new_cache()
    run(model, again, TEXT)
    assert torch.equal(run(model, first, [1, 2]), run(model, again, [1, 2]))


def test_what_a_draft_left_behind_the_text_never_becomes_a_number_that_is_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Layers that are left out write nothing; what lies there is masked later, and 0 · NaN is NaN."""
    model = Decoder(CONFIG, RandomSource(CONFIG), weights="fp32", device=torch.device("cpu"))
    cache = model.new_cache()
    run(model, cache, TEXT[:-1])
    empty = torch.empty
    monkeypatch.setattr(torch, "empty", lambda *shape, **more: empty(*shape, **more).fill_(float("nan")))
    tree = DraftTree((3, 5, 8), (-1, -1, 0))
    model.run(pack([Part(149, TEXT[-1:], tree, True)]), [cache], layers=[0, 3])
    cache.keep([0, 1, 3])
    monkeypatch.undo()
    cache.truncate(149)
    assert torch.isfinite(run(model, cache, TEXT[-1:])).all()


def test_drafted_rows_see_whole_passes_for_the_text_and_partial_ones_for_the_draft(model: Any) -> None:
    cache, kept = model.new_cache(), [0, 3]
    run(model, cache, TEXT[:-1])
    tree = drafted(model, cache, {"skip": "1-2"})
    rows = [TEXT[-1], *tree.tokens[:-1]]
    batch = pack([Part(cache.length, rows, DraftTree(), True, all_pending=True)])
    logits = model.run(batch, [cache], layers=kept).logits
    assert logits.argmax(-1).tolist() == list(tree.tokens)
    assert len(set(tree.tokens)) > 1


@pytest.mark.parametrize(("rule", "budget"), [("greedy", 1), ("greedy", 7), ("coupled", 4), ("rejection", 6)])
def test_a_target_that_leaves_nothing_out_keeps_every_guess_for_500_tokens(
    model: Any, rule: str, budget: int
) -> None:
    """One row too many or too few in the shared cache would show as acceptance that decays."""
    loaded = LoadedModel("tiny", model, ToyTokenizer(CONFIG.vocab_size))
    drafter = free(LayerSkipDrafter.build(model, loaded, {"skip": "none"}))
    engine = Engine(loaded, drafter, drafter_name="layerskip", rule=rule, budget=budget)
    params = SamplingParams(temperature=0.0 if rule == "greedy" else 1.0, seed=3, max_tokens=500)
    requests = [engine.submit(prompt, params) for prompt in ([1, 2, 3], TEXT[:8])]
    while engine.busy:
        engine.step()
    for request in requests:
        assert request.result is not None
        made = request.result.speculation
        assert len(request.result.token_ids) == 500
        assert made.accepted == made.drafted
        assert made.passes == 1 + -(-499 // (budget + 1))  # the pass that ends a prompt has no draft


def test_texts_that_begin_alike_share_pages_and_drafts_never_show_in_them(model: Any) -> None:
    """Each text is that of plain decoding without a store, whatever was drafted on the pages before."""
    loaded = LoadedModel("tiny", model, ToyTokenizer(CONFIG.vocab_size))
    prompts = [TEXT[:140], [*TEXT[:128], 5], [*TEXT[:128], 6, 7], TEXT[:140]]
    params = SamplingParams(temperature=1.0, seed=4, max_tokens=40)

    def texts(drafter: Drafter, prefixes: PrefixStore | None) -> list[tuple[int, ...]]:
        found = []
        for _ in range(2):
            engine = Engine(loaded, drafter, drafter_name=drafter.name, prefixes=prefixes)
            requests = [engine.submit(prompt, params) for prompt in prompts]
            while engine.busy:
                engine.step()
            found += [request.result.token_ids for request in requests if request.result is not None]
        return found

    slots = model.new_cache().page_slots
    drafter = free(LayerSkipDrafter.build(model, loaded, {"skip": "1-2", "width": 3}))
    assert texts(drafter, PrefixStore(slots, 1 << 24)) == texts(NoDrafter(), None)


def test_a_trunk_that_an_interrupt_kept_out_of_the_cache_is_read_again() -> None:
    """The next draft would else take rows for held that were never run."""
    target = ToyTarget(8, seed=1)
    reader = TreeReader(target, 8)
    text, nodes = [1, 2, 3], Branches([4, 5, 6], [-1, 0, 1])
    fresh = Held(target.new_cache(), list(text))
    expected = reader.read([(fresh, nodes, [2])])
    interrupted = Held(target.new_cache(), list(text), trunk=[4, 5])
    assert torch.equal(reader.read([(interrupted, nodes, [2])])[0], expected[0])


def test_a_partial_pass_reads_the_bytes_of_the_layers_it_runs_and_of_the_head(model: Any) -> None:
    assert len(model.layer_bytes) == 4
    head = model.weight_bytes - sum(model.layer_bytes)
    assert head > 0
    partial = PartialModel(model, (1, 2))
    assert partial.weight_bytes == head + model.layer_bytes[0] + model.layer_bytes[3]
    drafter = LayerSkipDrafter.build(model, None, {"skip": "1-2"})
    assert drafter.cost == pytest.approx(partial.weight_bytes / model.weight_bytes)
