"""How one request is sampled and when it ends."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from outrider.errors import OptionError
from outrider.sampling import checks

LogitsProcessor = Callable[[Sequence[int], Tensor], Tensor]
"""A user's own function: (the tokens before a row, its logits [V] float32) to its new logits [V]."""

OUTPUT_GRAMMARS = ("json_schema", "json_object", "regex", "grammar", "choice")
"""Options that say what the output must be; at most one of them is given."""

MOST_SAMPLES = 128
"""Most samples of one prompt, `n` or `best_of`: all are held at once. Another seed gives more."""

MOST_LOGPROBS = 20
"""Most alternatives that `logprobs` and `prompt_logprobs` list for a token."""

_SEED_LOW, _SEED_HIGH = -(2**63), 2**64 - 1


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """Options of one request; checked when built, OptionError names the option, the value and the range.

    What needs the model (ids in its vocabulary, banned words as tokens, room for `min_tokens`) is checked
    when the request is submitted, before anything runs. The order in which options act on logits stands in
    `outrider.sampling.law`. "Prefix" is the text before a token: prompt, output, and the drafted tokens on
    its own path.
    """

    temperature: float = 0.0
    """Divides the logits; 0 takes the most likely token, the lowest id among equals."""
    top_k: int = 0
    """Keep the k most likely tokens and all that tie with the k-th; 0 keeps all."""
    top_p: float = 1.0
    """Keep the smallest set of most likely tokens whose mass reaches this; 1 keeps all."""
    min_p: float = 0.0
    """Keep tokens at least this likely relative to the most likely one; 0 keeps all."""
    typical_p: float = 1.0
    """Keep the tokens whose surprise is nearest to the law's entropy, up to this mass; 1 keeps all."""
    repetition_penalty: float = 1.0
    """Logits of tokens in the prefix are divided by this where positive, else multiplied; 1 is off."""
    presence_penalty: float = 0.0
    """Taken from the logits of tokens that the output holds; from -2 to 2."""
    frequency_penalty: float = 0.0
    """Taken from a token's logit once for each time the output holds it; from -2 to 2."""
    no_repeat_ngram_size: int = 0
    """No run of this many tokens occurs twice in the prefix; 0 is off."""
    logit_bias: Mapping[int, float] | tuple[tuple[int, float], ...] = ()
    """Added to logits: {token id: number}; kept as pairs in order of id."""
    allowed_tokens: tuple[int, ...] | None = None
    """Only these token ids may be emitted; None allows all."""
    banned_tokens: tuple[int, ...] = ()
    """These token ids are never emitted."""
    banned_words: tuple[str, ...] = ()
    """Texts that are never emitted as the tokens that the tokenizer makes of them, at the beginning of a text
    or after a space; one string or several. (The same letters in other tokens are not looked for.)"""
    logits_processors: tuple[LogitsProcessor, ...] = ()
    """Functions of one's own, one or several: f(prefix_tokens, logits [V]) returns the new logits [V]. Called
    in order with each node's own prefix, for the target and for a draft model alike, never twice for one row
    of a pass. They must be pure: nodes are asked for in any order, and most are never emitted."""
    json_schema: Mapping[str, Any] | str | None = None
    """The output is JSON of this schema, given as a dict or as text; kept as text."""
    json_object: bool = False
    """The output is a JSON object."""
    regex: str | None = None
    """The whole output matches this regular expression (no look-around)."""
    grammar: str | None = None
    """The output is of this grammar: Lark (its first rule is `start`), or GBNF (`root ::=`)."""
    choice: tuple[str, ...] | None = None
    """The output is one of these strings; None sets none."""
    seed: int | None = None
    """The same seed gives the same text; None draws one at random."""
    n: int = 1
    """How many samples of the prompt are wanted, 1 to 128; sample i is the same whatever n is."""
    best_of: int | None = None
    """Draw this many samples, up to 128, and keep the n whose tokens were most likely on average; None draws
    n."""
    logprobs: int | None = None
    """Give each emitted token's logprob and those of this many most likely tokens, 0 to 20; None gives
    none."""
    logprobs_of: str = "raw"
    """"raw": of the softmax of the model's logits; "processed": of the law drawn from, after all options."""
    prompt_logprobs: int | None = None
    """The same for the tokens of the prompt, always raw; None gives none."""
    min_tokens: int = 0
    """Fewest tokens emitted: before, no end token can be drawn and no stop string counts."""
    max_tokens: int | None = 128
    """Most tokens emitted; None goes on until the context ends."""
    stop: tuple[str, ...] = ()
    """Texts that end the request, themselves left out; one string or several."""
    stop_token_ids: tuple[int, ...] = ()
    """Tokens that end the request, besides the model's own end tokens."""
    ignore_eos: bool = False
    """Go on past the model's end tokens."""

    def __post_init__(self) -> None:
        self._check_filters()
        self._check_prefix_options()
        self._check_output_grammar()
        self._check_samples()
        self._check_ends()

    def _check_filters(self) -> None:
        number, whole = checks.number, checks.whole
        number("temperature", self.temperature, "a finite number >= 0", lambda t: t >= 0)
        whole("top_k", self.top_k, "a whole number >= 0 (0 keeps all)", 0)
        number("top_p", self.top_p, "a number with 0 < top_p <= 1 (1 keeps all)", lambda p: 0 < p <= 1)
        number("min_p", self.min_p, "a number from 0 to 1 (0 keeps all)", lambda p: 0 <= p <= 1)
        allowed = "a number with 0 < typical_p <= 1 (1 keeps all)"
        number("typical_p", self.typical_p, allowed, lambda p: 0 < p <= 1)

    def _check_prefix_options(self) -> None:
        positive = "a number > 0 (1 is off)"
        checks.number("repetition_penalty", self.repetition_penalty, positive, lambda r: r > 0)
        for option in ("presence_penalty", "frequency_penalty"):
            value = getattr(self, option)
            checks.number(option, value, "a number from -2 to 2 (0 is off)", lambda p: -2 <= p <= 2)
        checks.whole("no_repeat_ngram_size", self.no_repeat_ngram_size, "a whole number >= 0 (0 is off)", 0)
        self._keep("logit_bias", checks.biases("logit_bias", self.logit_bias))
        self._keep("banned_tokens", checks.ids("banned_tokens", self.banned_tokens))
        self._keep("banned_words", checks.texts("banned_words", self.banned_words))
        self._keep("logits_processors", checks.functions("logits_processors", self.logits_processors))
        if self.allowed_tokens is not None:
            self._keep("allowed_tokens", checks.ids("allowed_tokens", self.allowed_tokens))
            if not self.allowed_tokens:
                raise checks.refusal("allowed_tokens", (), "at least one token id, or None to allow all")
            both = sorted(set(self.allowed_tokens) & set(self.banned_tokens))
            if both:
                raise OptionError(
                    f"token {both[0]} stands in both allowed_tokens and banned_tokens; take it out of one"
                )

    def _check_output_grammar(self) -> None:
        self._keep("json_schema", checks.schema("json_schema", self.json_schema))
        if self.choice is not None:
            self._keep("choice", checks.texts("choice", self.choice))
            if not self.choice:
                raise checks.refusal("choice", (), "at least one string, or None to set none")
        checks.switch("json_object", self.json_object)
        for option in ("regex", "grammar"):
            value = getattr(self, option)
            if value is not None and (not isinstance(value, str) or not value):
                raise checks.refusal(option, value, "a non-empty string, or None")
        given = [option for option in OUTPUT_GRAMMARS if getattr(self, option)]
        if len(given) > 1:
            raise OptionError(f"{' and '.join(given)} cannot be given together; keep one of them")

    def _check_samples(self) -> None:
        if self.seed is not None:
            checks.whole("seed", self.seed, "a 64-bit whole number, or None", _SEED_LOW, _SEED_HIGH)
        checks.whole("n", self.n, f"a whole number from 1 to {MOST_SAMPLES}", 1, MOST_SAMPLES)
        if self.best_of is not None:
            allowed = f"a whole number from n ({self.n}) to {MOST_SAMPLES}, or None"
            checks.whole("best_of", self.best_of, allowed, self.n, MOST_SAMPLES)
        for option in ("logprobs", "prompt_logprobs"):
            allowed = f"a whole number from 0 to {MOST_LOGPROBS}, or None for none"
            if getattr(self, option) is not None:
                checks.whole(option, getattr(self, option), allowed, 0, MOST_LOGPROBS)
        if self.logprobs_of not in ("raw", "processed"):
            raise checks.refusal("logprobs_of", self.logprobs_of, "'raw' or 'processed'")
        if self.logprobs_of != "raw" and self.logprobs is None:
            raise OptionError(
                f"logprobs_of={self.logprobs_of!r} says of what logprobs are, and none are asked for; set "
                "logprobs, too (prompt_logprobs are always raw)"
            )

    def _check_ends(self) -> None:
        checks.whole("min_tokens", self.min_tokens, "a whole number >= 0", 0)
        if self.max_tokens is not None:
            checks.whole(
                "max_tokens", self.max_tokens, "a whole number >= 1, or None for the whole context", 1
            )
            if self.min_tokens > self.max_tokens:
                raise OptionError(
                    f"min_tokens={self.min_tokens} is more than max_tokens={self.max_tokens}; lower the "
                    "first or raise the second"
                )
        self._keep("stop", checks.texts("stop", self.stop))
        self._keep("stop_token_ids", checks.ids("stop_token_ids", self.stop_token_ids))
        checks.switch("ignore_eos", self.ignore_eos)

    @property
    def output_grammar(self) -> tuple[str, str] | None:
        """Which option says what the output must be, and its value as text; None where none does."""
        option = next((option for option in OUTPUT_GRAMMARS if getattr(self, option)), None)
        if option is None:
            return None
        value = getattr(self, option)
        texts = {"json_object": '{"type": "object"}', "choice": json.dumps(self.choice)}
        return option, texts.get(option, value)

    @property
    def has_filters(self) -> bool:
        """True where top_k, top_p, min_p or typical_p may leave tokens out."""
        return self.top_k > 0 or self.top_p < 1 or self.min_p > 0 or self.typical_p < 1

    @property
    def samples(self) -> int:
        """How many samples are drawn."""
        return self.n if self.best_of is None else self.best_of

    @property
    def ranks(self) -> bool:
        """True where more samples are drawn than are wanted."""
        return self.samples > self.n

    def _keep(self, option: str, value: object) -> None:
        object.__setattr__(self, option, value)

    @property
    def greedy(self) -> bool:
        """True at temperature 0, where every law is a point mass."""
        return self.temperature == 0
