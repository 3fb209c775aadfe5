"""Faults in options, stops and logprobs, each a change of the loop's own code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch

from outrider.loop.commit.record import Record
from outrider.loop.commit.stops import Stops
from outrider.loop.verify import score
from outrider.sampling import processing, processors
from outrider.sampling.history import NGrams, Tally
from outrider.sampling.law import LogitLaws
from outrider.sampling.processing import Processing

Patch = pytest.MonkeyPatch


def paths_are_forgotten(patch: Patch) -> None:
    patch.setattr(score, "path_to", lambda tree, row: ())


def paths_lack_their_own_node(patch: Patch) -> None:
    whole = score.path_to
    patch.setattr(score, "path_to", lambda tree, row: whole(tree, row)[:-1])


def paths_are_all_nodes_before(patch: Patch) -> None:
    patch.setattr(score, "path_to", lambda tree, row: tree.tokens[:row])


def options_are_ignored(patch: Patch) -> None:
    patch.setattr(score, "LogitLaws", lambda logits, params, *_: LogitLaws(logits, params))


def one_row_stands_for_all(patch: Patch) -> None:
    whole = LogitLaws._row
    patch.setattr(LogitLaws, "_row", lambda self, row: whole(self, row) if row == 0 else self._logits[row])


def drafts_turned_down_are_counted(patch: Patch) -> None:
    whole = Tally.after

    def after(self: Tally, path: Sequence[int]) -> Any:
        found = whole(self, path)
        for token in path:
            slot = self._slots.setdefault(token, len(self._slots))
            self._ids[slot] = token
            self._counts[slot] += 1
        return found

    patch.setattr(Tally, "after", after)


def each_token_of_a_path_is_counted_once(patch: Patch) -> None:
    whole = Tally.after
    patch.setattr(Tally, "after", lambda self, path: whole(self, tuple(dict.fromkeys(path))))


def presence_counts_the_prompt(patch: Patch) -> None:
    patch.setattr(processing, "Tally", lambda tokens, start=0: Tally(tokens))


def repetition_leaves_out_the_prompt(patch: Patch) -> None:
    def penalise(self: Processing, row: torch.Tensor, path: Sequence[int]) -> None:
        ids, _ = self._output.after(path)
        processors.penalise_repetition(row, ids, self._params.repetition_penalty)

    patch.setattr(Processing, "_penalise_repetition", penalise)


def negative_logits_are_divided_too(patch: Patch) -> None:
    def penalise(row: torch.Tensor, ids: torch.Tensor, penalty: float) -> None:
        row[ids] /= penalty

    patch.setattr(processors, "penalise_repetition", penalise)


def runs_are_looked_for_in_the_committed_text_only(patch: Patch) -> None:
    whole = NGrams.repeating

    def repeating(self: NGrams, path: Sequence[int]) -> set[int]:
        before = self._size - 1
        tail = [*self._tokens, *path]
        whole(self, ())
        return set(self._followers.get(tuple(tail[len(tail) - before :]), ()))

    patch.setattr(NGrams, "repeating", repeating)


def words_are_looked_for_in_the_committed_text_only(patch: Patch) -> None:
    whole = Processing._tail
    patch.setattr(Processing, "_tail", lambda self, path, length: whole(self, (), length))


def options_act_in_another_order(patch: Patch) -> None:
    whole = Processing.row

    def row(self: Processing, logits: torch.Tensor, path: Sequence[int]) -> torch.Tensor:
        self._steps.sort(key=lambda step: step.__name__)
        return whole(self, logits, path)

    patch.setattr(Processing, "row", row)


def min_tokens_leave_out_the_run(patch: Patch) -> None:
    whole = Processing._emitted
    patch.setattr(Processing, "_emitted", lambda self, path: whole(self, ()))


def min_tokens_are_one_too_many(patch: Patch) -> None:
    whole = Processing._emitted
    patch.setattr(Processing, "_emitted", lambda self, path: whole(self, path) - 1)


def a_draft_model_disturbs_the_counts_of_the_target(patch: Patch) -> None:
    """One state for both, moved on by whoever asks."""
    whole = Processing.row

    def row(self: Processing, logits: torch.Tensor, path: Sequence[int]) -> torch.Tensor:
        self._prompt_length += len(path) > 0
        return whole(self, logits, path)

    patch.setattr(Processing, "row", row)


TOKEN_FAULTS: dict[Callable[[Patch], None], str] = {
    paths_are_forgotten: "repetition penalty",
    paths_lack_their_own_node: "no repeated pairs",
    paths_are_all_nodes_before: "frequency penalty, greedy",
    options_are_ignored: "presence penalty",
    one_row_stands_for_all: "repetition penalty",
    drafts_turned_down_are_counted: "frequency penalty",
    each_token_of_a_path_is_counted_once: "frequency penalty",
    presence_counts_the_prompt: "presence penalty",
    repetition_leaves_out_the_prompt: "repetition penalty",
    negative_logits_are_divided_too: "repetition penalty",
    runs_are_looked_for_in_the_committed_text_only: "no repeated pairs",
    words_are_looked_for_in_the_committed_text_only: "banned words",
    options_act_in_another_order: "penalties and filters",
    min_tokens_leave_out_the_run: "min tokens",
    min_tokens_are_one_too_many: "min tokens",
    a_draft_model_disturbs_the_counts_of_the_target: "min tokens",
}
"""Each with the options under which it is looked for, by their name in `matrix`."""


def the_length_comes_first(patch: Patch) -> None:
    whole = Stops.cut
    patch.setattr(
        Stops, "cut", lambda self, run, room: (room, "length") if len(run) >= room else whole(self, run, room)
    )


def only_the_last_token_of_a_run_may_end_it(patch: Patch) -> None:
    whole = Stops.cut

    def cut(self: Stops, run: Sequence[int], room: int) -> tuple[int, str | None]:
        kept = self._end_tokens
        for token in run[:-1]:
            self._end_tokens = frozenset()
            whole(self, [token], room + 1)
        self._end_tokens = kept
        count, reason = whole(self, run[-1:], room - len(run) + 1)
        return min(len(run) - 1 + count, room), reason

    patch.setattr(Stops, "cut", cut)


def a_stop_string_must_lie_in_one_run(patch: Patch) -> None:
    whole = Stops.cut

    def cut(self: Stops, run: Sequence[int], room: int) -> tuple[int, str | None]:
        self._searched = max(self._searched, len(self._emitted))
        return whole(self, run, room)

    patch.setattr(Stops, "cut", cut)


def tokens_after_a_stop_string_stay(patch: Patch) -> None:
    whole = Stops.cut

    def cut(self: Stops, run: Sequence[int], room: int) -> tuple[int, str | None]:
        count, reason = whole(self, run, room)
        return count if reason is None else min(len(run), room), reason

    patch.setattr(Stops, "cut", cut)


def stop_strings_count_before_min_tokens(patch: Patch) -> None:
    whole = Stops.__init__
    patch.setattr(
        Stops, "__init__", lambda self, ends, strings, text_of, *_: whole(self, ends, strings, text_of)
    )


END_FAULTS: list[Callable[[Patch], None]] = [
    the_length_comes_first,
    only_the_last_token_of_a_run_may_end_it,
    a_stop_string_must_lie_in_one_run,
    tokens_after_a_stop_string_stay,
    stop_strings_count_before_min_tokens,
]


def logprobs_are_those_of_the_next_row(patch: Patch) -> None:
    whole = Record.note

    def note(self: Record, laws: LogitLaws, tokens: Any) -> None:
        whole(self, laws, [(min(row + 1, len(laws) - 1), token) for row, token in tokens])

    patch.setattr(Record, "note", note)


def logprobs_of_a_run_are_those_of_its_first_row(patch: Patch) -> None:
    whole = Record.note
    patch.setattr(Record, "note", lambda self, laws, tokens: whole(self, laws, [(0, t) for _, t in tokens]))


LOGPROB_FAULTS: list[Callable[[Patch], None]] = [
    logprobs_are_those_of_the_next_row,
    logprobs_of_a_run_are_those_of_its_first_row,
]
