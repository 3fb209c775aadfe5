"""The public face: load a model, generate text, stream it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, overload

from outrider.cache.prefix import PrefixStore
from outrider.drafters import build_drafter, check_drafter_options, parse_drafter
from outrider.engine.engine import Engine, check_budget
from outrider.engine.live import Stream
from outrider.engine.result import Result
from outrider.engine.samples import gather, submit_samples
from outrider.engine.scheduler import Limits
from outrider.engine.service import Service
from outrider.errors import CapabilityError, OptionError, PromptError, UnknownNameError
from outrider.loop.accept.table import RuleChoice
from outrider.loop.draft.base import Drafter
from outrider.models.base import LoadedModel
from outrider.planner.measured import MeasuredLatency
from outrider.pricing import fingerprint, measured_latency, price
from outrider.prompts import Messages, Prompt, check_messages, is_messages, is_several, token_ids
from outrider.sampling import checks
from outrider.sampling.params import SamplingParams

UNBOUNDED = Limits(waiting=10**9)
"""For a list of prompts that was given whole: all of them may wait."""


class LLM:
    """A loaded model with a drafter and a rule. Make one with `outrider.load`."""

    def __init__(
        self,
        model: LoadedModel,
        drafter: Drafter,
        *,
        drafter_name: str,
        rule: str,
        guarantee: str | None = None,
        lossy: bool = False,
        budget: int | None,
        latency: MeasuredLatency | None = None,
        prefixes: PrefixStore | None = None,
        mark: str = "",
        weights: str = "auto",
        activations: str = "auto",
        device: str = "auto",
    ) -> None:
        """`latency` tells what draft nodes cost; it is measured now if the drafter asks for it.

        With None they count as free. `prefixes` keeps what texts leave in the cache, for later ones. `mark`:
        the drafter's `pricing.fingerprint`, by which what its steps cost is kept; without one they cost what
        it says.
        """
        self.model = model
        self.drafter_name = drafter_name
        self.rule_name = rule
        self._choice = RuleChoice(rule, guarantee, lossy)
        self.budget = budget
        self._drafter = drafter
        self._latency = latency
        self._curve = None if latency is None or not drafter.weighs_costs else latency.get()
        if self._curve is not None and mark:
            price(drafter, model, mark)
        self._mark = mark
        self.prefixes = prefixes
        self._numbers = {"weights": weights, "activations": activations, "device": device}

    @overload
    def generate(
        self, prompt: Prompt, params: SamplingParams | None = None, *, chat: bool = False, **options: Any
    ) -> Result: ...

    @overload
    def generate(
        self,
        prompt: list[str] | list[list[int]] | list[Messages],
        params: SamplingParams | None = None,
        *,
        chat: bool = False,
        **options: Any,
    ) -> list[Result]: ...

    def generate(
        self, prompt: Any, params: SamplingParams | None = None, *, chat: bool = False, **options: Any
    ) -> Result | list[Result]:
        """Complete one prompt (text or token ids), or several together; several give a list in their order.

        `chat` puts a text through the model's chat template as the user's message; a list of messages
        (`{"role": …, "content": …}`) is one conversation. Control tokens come from the template alone: what a
        message says is text, while in a prompt without `chat` their texts are those tokens. Sampling options
        are those of `SamplingParams`, given as an object, by name, or both (names win). With `n` above 1 a
        prompt's result is its first sample (with `best_of` its best one), and `result.samples` holds all n.
        UsageError for what cannot be run, before anything runs.
        """
        settings = _settings(params, options)
        several = is_several(prompt)
        prompts = list(prompt) if several else [prompt]
        engine = self.engine(UNBOUNDED)
        requests = [submit_samples(engine, self.encode(one, chat=chat), settings) for one in prompts]
        while engine.busy:
            engine.step()
        results = [gather(samples, settings) for samples in requests]
        return results if several else results[0]

    def stream(
        self,
        prompt: Prompt | Messages,
        params: SamplingParams | None = None,
        *,
        chat: bool = False,
        **options: Any,
    ) -> Stream:
        """Complete one prompt and yield its text as it comes; the last chunk carries the `Result`.

        Closing the stream aborts the request. Errors in the arguments are raised at once, not when the
        stream is first advanced. A stream is one sample: `n` or `best_of` above 1 is an OptionError.
        """
        if is_several(prompt):
            raise PromptError("a stream runs one prompt, and these are several; use generate")
        engine = self.engine(UNBOUNDED)
        request = engine.submit(self.encode(prompt, chat=chat), _settings(params, options))
        return Stream(engine, request)

    def encode(self, prompt: Prompt | Messages, *, chat: bool = False) -> list[int]:
        """Return the tokens of a prompt, as `generate` runs them."""
        checks.switch("chat", chat)
        tokenizer = self.model.tokenizer
        if isinstance(prompt, str):
            if not prompt:
                raise PromptError("the prompt is empty; give at least one token of text")
            return tokenizer.chat([{"role": "user", "content": prompt}]) if chat else tokenizer.encode(prompt)
        if is_messages(prompt):
            return tokenizer.chat(check_messages(prompt))
        ids = token_ids(prompt)
        if ids is None:
            raise PromptError("a prompt is a text, a list of token ids, or a list of messages")
        if chat:
            raise OptionError("chat=True takes text or messages; token ids are run as they are")
        return ids

    def using(
        self,
        *,
        drafter: str | Drafter | None = None,
        drafter_options: Mapping[str, Any] | None = None,
        rule: str | None = None,
        budget: int | None = None,
        fill_budget: bool | None = None,
    ) -> LLM:
        """Return an LLM with another drafter, rule or budget that shares this one's loaded target.

        `drafter`: a name, or one that is made already and takes no options. `fill_budget`: True where nodes
        count as free, False where they are weighed, None where that stays as it is.
        """
        made, name, mark = self._drafter, self.drafter_name, self._mark
        if drafter is not None and not isinstance(drafter, str):
            if not hasattr(drafter, "propose"):
                raise OptionError(f"drafter={drafter!r} is not allowed; give a drafter, or the name of one")
            if drafter_options is not None:
                raise OptionError("drafter_options go with a drafter's name; this one is made already")
            made, name, mark = drafter, drafter.name, ""
        elif drafter is not None or drafter_options is not None:
            name = name if drafter is None else drafter
            made = build_drafter(name, self.model, options=drafter_options, **self._numbers)
            mark = fingerprint(name, drafter_options, self._numbers)
        latency = self._latency
        if fill_budget is not None:
            checks.switch("fill_budget", fill_budget)
            latency = None if fill_budget else latency or measured_latency(self.model)
        return LLM(
            self.model,
            made,
            drafter_name=name,
            rule=self.rule_name if rule is None else rule,
            guarantee=self._choice.guarantee,
            lossy=self._choice.lossy,
            budget=self.budget if budget is None else check_budget(budget),
            latency=latency,
            prefixes=self.prefixes,
            mark=mark,
            **self._numbers,
        )

    @property
    def weighs_costs(self) -> bool:
        """True where drafts are cut by what their nodes cost; False where nodes count as free."""
        return self._curve is not None

    def service(self, limits: Limits | None = None) -> Service:
        """Return an engine that runs on a thread of its own and takes requests from any thread.

        `submit` takes token ids (see `encode`) and `SamplingParams`. Close it, or use it in a `with` block.
        """
        return Service(self.engine(limits))

    def engine(self, limits: Limits | None = None) -> Engine:
        """Return a new engine over this model, drafter and rule, to be driven step by step."""
        return Engine(
            self.model,
            self._drafter,
            drafter_name=self.drafter_name,
            rule=self._choice.name,
            guarantee=self._choice.guarantee,
            lossy=self._choice.lossy,
            budget=self.budget,
            latency=self._curve,
            limits=limits,
            prefixes=self.prefixes,
        )


def load(
    model: Any,
    *,
    drafter: str = "none",
    drafter_options: Mapping[str, Any] | None = None,
    rule: str = "auto",
    guarantee: str | None = None,
    lossy: bool = False,
    weights: str = "auto",
    activations: str = "auto",
    device: str = "auto",
    budget: int | None = None,
    fill_budget: bool = False,
    prefix_bytes: int = 0,
    threads: int | None = None,
    tokenizer: Any = None,
) -> LLM:
    """Load a model and make it ready to generate.

    `model`: "demo" (the embedded default), a Hugging Face directory, a `.gguf` file, a hub id, or a
    transformers model in memory (then with its `tokenizer`). `drafter`: "none", "suffix", "recycle",
    "lm:MODEL" for a separate draft model, "layerskip" for the model itself without some of its layers,
    "merged:A+B" for several in one tree, or "auto" (or "auto:A+B") for the one of several that promises most,
    chosen for every draft; `drafter_options` are what can be set
    about it, by name. `rule`: "auto" or the name of one; `guarantee`: "same_tokens" (what
    "auto" keeps) or
    "same_law"; `lossy=True` is needed for a rule that changes the distribution of the text. `weights`:
    "auto", "fp32", "fp16", "bf16", "int8" or "file" (a GGUF file's own blocks). `activations`: what int8
    weights and blocks are multiplied with, "auto", "int16" or "int8". `budget`: most draft nodes of one pass.
    Drafts are cut where more nodes do not pay, by the measured time of a pass on this machine; with
    `fill_budget` nodes count as free. `prefix_bytes`: memory for keys and values of texts that have been run
    (a draft model's own included);
    a later prompt that begins with one of them (a further turn of a chat, another question about a document)
    does not read it again. `threads`: CPU threads, torch's own choice where None. Raises LoadError
    or UsageError, whose messages say what to do.
    """
    from outrider.models.load import load_model

    RuleChoice(rule, guarantee, lossy)
    check_budget(budget)
    checks.switch("fill_budget", fill_budget)
    checks.whole("prefix_bytes", prefix_bytes, "a whole number >= 0", 0)
    if threads is not None:
        import torch

        if not isinstance(threads, int) or isinstance(threads, bool) or not 1 <= threads <= 1024:
            raise OptionError(f"threads={threads!r} is not allowed; give a whole number from 1 to 1024")
        torch.set_num_threads(threads)
    parse_drafter(drafter)  # what cannot be a drafter fails before weights are read
    check_drafter_options(drafter_options)
    numbers = {"weights": weights, "activations": activations, "device": device}
    loaded = load_model(model, tokenizer=tokenizer, **numbers)
    made = build_drafter(drafter, loaded, options=drafter_options, **numbers)
    return LLM(
        loaded,
        made,
        drafter_name=drafter,
        rule=rule,
        guarantee=guarantee,
        lossy=lossy,
        budget=budget,
        latency=None if fill_budget else measured_latency(loaded),
        prefixes=_prefixes(loaded, prefix_bytes),
        mark=fingerprint(drafter, drafter_options, numbers),
        **numbers,
    )


def _prefixes(model: LoadedModel, most_bytes: int) -> PrefixStore | None:
    """Return a store of prefixes; None where none is wanted. CapabilityError where the model has no pages."""
    store = PrefixStore.of_pages_like(model.target.new_cache(), most_bytes) if most_bytes else None
    if most_bytes and store is None:
        raise CapabilityError(
            f"{model.name} keeps no pages of its cache for later texts; leave prefix_bytes out"
        )
    return store


def _settings(params: SamplingParams | None, options: dict[str, Any]) -> SamplingParams:
    if params is not None and not isinstance(params, SamplingParams):
        raise OptionError(
            f"params={params!r} is not allowed; give outrider.SamplingParams(…), or options by name, as in "
            "max_tokens=64"
        )
    known = SamplingParams.__dataclass_fields__
    unknown = next((name for name in options if name not in known), None)
    if unknown is not None:
        raise UnknownNameError("sampling option", unknown, known)
    return replace(params or SamplingParams(), **options)
