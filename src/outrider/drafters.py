"""From a drafter's name to the drafter: what may stand after the colon, and which options it takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from outrider.errors import OptionError
from outrider.loop.draft.base import Drafter, DrafterClass, MergingClass
from outrider.models.base import LoadedModel, capturing
from outrider.registry import DRAFTERS

if TYPE_CHECKING:
    from outrider.draft_heads import Ready


@dataclass(frozen=True, slots=True)
class DrafterSpec:
    """A parsed name: "suffix", "lm:MODEL", "merged:suffix+recycle", "merged:suffix+lm:MODEL"."""

    name: str
    parts: tuple[str, ...] = ()
    """The drafters that share one tree."""
    model: str | None = None
    """The model to draft with."""


def parse_drafter(spec: str) -> DrafterSpec:
    """Take a drafter's name apart. A part that takes a model stands last, since a path may hold a plus.

    UnknownNameError for a drafter that is not in the table, OptionError for anything after the colon that
    does not fit the drafter.
    """
    if not isinstance(spec, str):
        raise OptionError(f"drafter={spec!r} is not allowed; give a drafter's name: {', '.join(DRAFTERS)}")
    name, colon, argument = spec.partition(":")
    kind: DrafterClass = DRAFTERS.load(name)
    if not getattr(kind, "takes_parts", False):
        if kind.takes_model and not argument:
            raise OptionError(f"the drafter {name!r} needs a model: write {name}:PATH")
        if colon and not kind.takes_model:
            raise OptionError(f"the drafter {name!r} takes no argument: write {name}")
        return DrafterSpec(name, (), argument or None)
    if not colon:
        return DrafterSpec(name)
    parts: list[str] = []
    rest, model = argument, None
    while rest:
        part, plus, after = rest.partition("+")
        head = part.partition(":")[0]
        if DRAFTERS.load(head).takes_model:
            model = parse_drafter(rest).model
            parts.append(head)
            break
        if ":" in part:
            raise OptionError(
                f"the drafter {head!r} takes no argument: write {name}:{argument.replace(part, head)}"
            )
        parts.append(head)
        rest = after
        if plus and not rest:
            raise OptionError(f"a part is missing at the end of {spec!r}; name one, or drop the plus")
    unfit = next((part for part in parts if not _can_share(part)), None)
    if unfit is not None:
        can = [other for other in DRAFTERS if _can_share(other)]
        raise OptionError(f"{unfit!r} cannot share a tree with others; these can: {', '.join(can)}")
    if len(parts) < 2 or len(set(parts)) < len(parts):
        raise OptionError(
            f"{name!r} needs two or more different drafters, one that takes a model as the last: write "
            f"{name}:suffix+recycle or {name}:suffix+lm:MODEL"
        )
    return DrafterSpec(name, tuple(parts), model)


def build_drafter(
    spec: str,
    target: LoadedModel,
    *,
    weights: str = "auto",
    activations: str = "auto",
    device: str = "auto",
    options: Mapping[str, Any] | None = None,
) -> Drafter:
    """Make the drafter that `spec` names, with its options by name; its model is loaded like the target."""
    parsed = parse_drafter(spec)
    check_drafter_options(options)
    model = draft_model(parsed, target, weights=weights, activations=activations, device=device)
    return assemble(parsed, target, model, options or {})


def draft_model(
    spec: DrafterSpec,
    target: LoadedModel,
    *,
    weights: str = "auto",
    activations: str = "auto",
    device: str = "auto",
) -> LoadedModel | Ready | None:
    """Load the model or the head that a parsed name drafts with; None where it names none.

    VocabularyError for a model that does not speak the target's tokens, HeadError for a head that was made
    for another target.
    """
    if spec.model is None:
        return None
    drafter = spec.parts[-1] if spec.parts else spec.name
    if getattr(DRAFTERS.load(drafter), "takes_head", False):
        from outrider.draft_heads import ready_head

        return ready_head(drafter, spec.model, target, weights=weights)
    from outrider.models.compare import check_same_vocabulary
    from outrider.models.load import load_model

    model = load_model(spec.model, weights=weights, activations=activations, device=device)
    check_same_vocabulary(
        target.tokenizer, model.tokenizer, target.target.vocab_size, model.target.vocab_size
    )
    return model


def check_timed_alone(spec: DrafterSpec) -> None:
    """Refuse, for a forecast, a drafter whose passes are parts of the target's and are not timed."""
    if getattr(DRAFTERS.load(spec.name), "drafts_with_target", False):
        raise OptionError(
            f"what passes of {spec.name!r} cost depends on the layers left out, which is not forecast; "
            "measure it with outrider bench"
        )


def check_drafter_options(options: Any) -> None:
    """Refuse what does not hold options by name; the drafter itself reads them."""
    if options is not None and not isinstance(options, Mapping):
        raise OptionError(
            f"drafter_options={options!r} is not allowed; give options by name, as in {{'max_nodes': 8}}"
        )


def assemble(
    spec: DrafterSpec,
    target: LoadedModel,
    model: LoadedModel | Ready | None,
    options: Mapping[str, Any],
) -> Drafter:
    """Make the drafter of a parsed name, its model already loaded; unknown options are an OptionError.

    CapabilityError where it learns from hidden states that the target does not show.
    """
    if spec.parts:
        merging: MergingClass = DRAFTERS.load(spec.name)
        made = merging.merge(target.target, model, spec.parts, dict(options))
    else:
        kind: DrafterClass = DRAFTERS.load(spec.name)
        own = target if getattr(kind, "drafts_with_target", False) else model
        made = kind.build(target.target, own, dict(options))
    if made.features:
        capturing(target.target, made.features, made.name)
    return made


def _can_share(name: str) -> bool:
    return bool(getattr(DRAFTERS.load(name), "is_part", False))
