"""Caches, positions, and what a drafter remembers."""

from __future__ import annotations

from faults.fault import Fault, fault

LM = "loop/draft/lm.py"
PARTIAL = "loop/draft/partial.py"
HELD = "loop/draft/held.py"
COMMIT = "loop/commit/commit.py"
ENGINE, INTAKE, RUNNING = "engine/engine.py", "engine/intake.py", "engine/running.py"
HOLDING = "engine/holding.py"
OTHER_BRANCH = "models/test_decoder.py::test_a_kept_branch_that_is_not_the_first_leaves_the_right_keys_behind"

FAULTS: list[Fault] = [
    fault(
        "positions count rejected guesses, which shows from the second step on",
        "loop/verify/score.py",
        "Part(base, pending, tree",
        "Part(base + sum(s.drafted - s.committed.kept for s in sequence.steps[-1:]), pending, tree",
        test=OTHER_BRANCH,
    ),
    fault(
        "siblings get positions one after another",
        "loop/verify/pack.py",
        "[positions[root] + depth for depth in part.tree.depths()]",
        "range(positions[root] + 1, positions[root] + 1 + len(part.tree))",
        test="models/test_decoder.py::test_text_is_identical_with_random_trees_and_without",
    ),
    fault(
        "a node sees its siblings, not only its ancestors",
        "loop/verify/pack.py",
        "parents += [root + 1 + parent for parent in part.tree.parents]",
        "parents += range(root, root + len(part.tree))",
        test="models/test_decoder.py::test_text_is_identical_with_random_trees_and_without",
    ),
    fault(
        "a branch that is not the first is kept, but the cache keeps the first one's rows",
        COMMIT,
        "kept_rows = [pending + node for node in verdict.path[: count - 1]]",
        "kept_rows = [pending + at for at in range(count - 1)]",
        test=OTHER_BRANCH,
    ),
    fault(
        "the same in the buffer of the PyTorch pass",
        "cache/kv.py",
        "path = torch.tensor(rows, dtype=torch.long, device=self._device)",
        "path = torch.arange(kept, device=self._device)",
        test="cache/test_kv.py::test_a_tree_keeps_any_path",
    ),
    fault(
        "a rewound cache keeps what it was to forget",
        "cache/kv.py",
        "self._length, self._pending, self._side = length, 0, None",
        "self._pending, self._side = 0, None",
        test="cache/test_kv.py::test_a_rewound_cache_goes_on_from_where_it_was_cut",
    ),
    fault(
        "the draft model never reads its own last guess once all were kept",
        LM,
        "Part(cache.length, text[cache.length :], DraftTree(), True)",
        "Part(cache.length, text[-1:] if cache.length else text, DraftTree(), True)",
        test="loop/test_conformance.py::test_a_model_drafter_equal_to_the_target_is_always_accepted",
    ),
    fault(
        "the same with trees",
        HELD,
        "text = held.tokens[held.cache.length :]",
        "text = held.tokens[held.cache.length :][-1 if held.cache.length else 0 :]",
        test="loop/draft/test_lm_tree.py::"
        "test_a_draft_model_equal_to_the_target_keeps_a_whole_path_of_its_tree_each_pass[coupled]",
    ),
    fault(
        "the draft model's cache keeps a guess that was turned down",
        LM,
        "len(state.tokens) - len(tokens) + kept)",
        "len(state.tokens) - len(tokens) + kept + 1)",
        test="loop/draft/test_lm.py::test_after_every_step_the_draft_model_s_cache_holds_the_committed_text",
    ),
    fault(
        "the same with trees, where another branch was kept",
        HELD,
        "same = shared(self.trunk, tokens[:-1])",
        "same = min(len(self.trunk), len(tokens) - 1)",
        test="loop/draft/test_held.py::test_any_nodes_of_any_trees_are_read_right_step_after_step",
    ),
    fault(
        "keys outside a sliding window are gone when a draft is rolled back",
        "models/hf.py",
        "DynamicLayer() if type(layer) is DynamicSlidingWindowLayer else layer",
        "layer",
        test="models/test_hf.py::test_a_rewound_cache_gives_the_logits_of_a_fresh_one[windows on all layers]",
    ),
    fault(
        "a model whose state cannot be rewound is run in silence",
        "models/hf.py",
        "        self._probe()\n",
        "",
        test="models/test_hf.py::test_a_state_that_no_flag_declares_is_found_by_trial",
    ),
    fault(
        "a cache that says it cannot be rewound is used all the same",
        INTAKE,
        "if not cache.can_rewind:",
        "if False:",
        test="loop/test_batches.py::test_a_cache_that_cannot_be_rewound_is_refused",
    ),
    fault(
        "what a drafter learns from one tenant's texts is used for another's",
        "loop/draft/remembered.py",
        "        if tenant not in self._kept:",
        '        tenant = ""\n        if tenant not in self._kept:',
        test="loop/draft/test_remembered.py::test_the_engine_keeps_tenants_apart",
    ),
    fault(
        "what the target says is never shown to the drafter that learns from it",
        "loop/step.py",
        "if drafter.observes and proposal.asked:",
        "if False:",
        test="loop/test_observe.py::test_a_drafter_that_observes_sees_the_target_s_own_rows_of_every_step",
    ),
    fault(
        "the drafter is shown the target's rows in the place of other nodes",
        "loop/draft/recent.py",
        "for index, place in enumerate(places):",
        "for index, place in enumerate([places[-1], *places[:-1]]):",
        test="loop/draft/test_recent.py::test_rows_of_rejected_nodes_are_remembered_too",
    ),
    fault(
        "a drafter is not told the token that the target put in the place of a guess",
        COMMIT,
        "drafter.extend(sequence.draft_state, committed.tokens, committed.kept)",
        "drafter.extend(sequence.draft_state, committed.tokens[: committed.kept], committed.kept)",
        test="loop/test_conformance.py::"
        "test_the_budget_changes_the_passes_but_not_the_tokens[random trees-5]",
    ),
    fault(
        "a request that has ended keeps its cache",
        RUNNING,
        "        request.sequence.cache.truncate(0)\n",
        "",
        test="engine/test_ends.py::test_what_a_request_held_is_freed_when_it_ends",
    ),
    fault(
        "a request that is aborted keeps its place in the batch",
        ENGINE,
        "        self._running.release(request)\n        return Event",
        "        return Event",
        test="engine/test_ends.py::test_a_stream_that_is_left_or_dropped_frees_its_request",
    ),
    fault(
        "a drafter is not told that a request has ended",
        RUNNING,
        "            self._drafter.close(request.sequence.draft_state)\n",
        "",
        test="loop/test_batches.py::test_what_a_drafter_opened_is_closed_once_however_a_request_ends",
    ),
    fault(
        "the draft model keeps the cache of a request that has ended",
        LM,
        "        state.cache.keep(())\n        state.cache.truncate(0)\n",
        "        state.cache.keep(())\n",
        test="engine/test_ends.py::test_a_draft_model_frees_its_cache_when_a_request_ends[lm]",
    ),
    fault(
        "the same with trees",
        HELD,
        "        self.cache.truncate(0)\n",
        "        pass\n",
        test="engine/test_ends.py::test_a_draft_model_frees_its_cache_when_a_request_ends[lm, width 3]",
    ),
    fault(
        "what an interrupted pass has left in the cache is in the way of its release",
        RUNNING,
        "        request.sequence.cache.keep(())  # an interrupted pass has left its rows pending\n",
        "",
        test="engine/test_interrupts.py::"
        "test_text_tokens_and_counters_agree_wherever_an_interrupt_falls[random trees]",
    ),
    fault(
        "a drafter gets the states of rows that were turned down",
        COMMIT,
        "states = hidden.index_select(1, torch.tensor(rows, device=hidden.device))",
        "states = hidden[:, : len(rows)]",
        test="loop/test_features.py::"
        "test_every_committed_token_comes_with_the_states_of_a_single_pass[together-trees-pytorch]",
    ),
    fault(
        "guesses that were turned down at the end of a text are stored as that text",
        HOLDING,
        "told = min(most, sequence.told)",
        "told = most",
        test="engine/test_draft_prefixes.py::"
        "test_guesses_that_were_turned_down_at_the_end_of_a_text_are_not_stored",
    ),
    fault(
        "pages of one draft model are given to another of the same shape",
        HOLDING,
        "prefixes.lease(text, draft.kind.mark, draft.cache.page_slots)",
        'prefixes.lease(text, "drafts", draft.cache.page_slots)',
        test="engine/test_draft_prefixes.py::"
        "test_pages_of_one_drafter_s_model_are_never_given_to_another_s[pytorch]",
    ),
    fault(
        "what a drafter knows of a stored prefix ends before the states that it is fed begin",
        HOLDING,
        "        cache.truncate(lease.tokens - 1)\n",
        "",
        test="engine/test_draft_prefixes.py::"
        "test_a_drafter_that_learns_from_states_has_all_of_them_behind_a_stored_prefix[pytorch]",
    ),
    fault(
        "a drafter's own caches are not counted",
        HOLDING,
        "drafts: list[tuple[Cache, Lease | None]] = [(draft.cache, draft.lease) for draft in request.drafts]",
        "drafts: list[tuple[Cache, Lease | None]] = []",
        test="engine/test_draft_prefixes.py::"
        "test_what_a_drafter_s_caches_hold_is_counted_while_a_request_runs[pytorch]",
    ),
    fault(
        "rows of a draft without some layers stay in the target's cache",
        PARTIAL,
        "            self._cache.truncate(self._length)\n",
        "            pass\n",
        test="loop/draft/test_partial.py::"
        "test_a_draft_leaves_the_cache_and_those_that_share_its_pages_as_they_were[native-options1]",
    ),
    fault(
        "what such a draft leaves behind the text becomes NaN in a later pass",
        "cache/kv.py",
        "torch.zeros(layers, 2, kv_heads, rows, dim, device=self._device) if branching",
        "torch.empty(layers, 2, kv_heads, rows, dim, device=self._device) if branching",
        test="loop/draft/test_partial.py::"
        "test_what_a_draft_left_behind_the_text_never_becomes_a_number_that_is_none",
    ),
    fault(
        "an interrupted draft of that kind gets into a stored prefix",
        RUNNING,
        "self._store(request, len(request.sequence.tokens) - 1)",
        "self._store(request, len(request.sequence.tokens))",
        test="engine/test_interrupts.py::"
        "test_text_tokens_and_counters_agree_wherever_an_interrupt_falls[layerskip]",
    ),
]
