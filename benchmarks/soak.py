"""A service under mixed load for minutes: are texts right, do requests end, is everything given back?

    python benchmarks/soak.py [--model demo] [--minutes 10] [--readers 12] [--drafter suffix] [--weights auto]
                              [--threads N] [--seed 0] [--json]

Readers on threads of their own submit requests of all kinds (`KINDS`) under many sampling options and
priorities, to a service whose caches hold about three of the longest requests, so that running ones are
preempted and stored prefixes dropped. What is read is compared with plain decoding of the same request, run
alone before. Resident memory is sampled once a second. At the end the readers stop, and what is left of
requests, caches, leases and automata is counted: objects of this package beyond those there were before.
Exits with 1 where a text differs, a request is stuck, an error was not expected or anything is left.
With --json the last line of the output is one JSON document.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import ctypes
import gc
import json
import random
import resource
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import outrider
from outrider.bench.provenance import provenance
from outrider.bench.suites import open_suite
from outrider.drafters import build_drafter
from outrider.engine.engine import Engine
from outrider.engine.handle import Handle
from outrider.engine.scheduler import Limits
from outrider.engine.service import Service
from outrider.errors import OptionError, OverloadedError, PromptError
from outrider.llm import LLM
from outrider.sampling.params import SamplingParams

LONGEST = 160
"""Most tokens of an answer, and more chunks than a reader may fall behind."""
KINDS = {
    "read": 10,  # to the end
    "cancel": 4,  # after some chunks
    "drop": 3,  # the handle, after some chunks
    "timeout": 3,  # it is given little time
    "late": 2,  # read so late that it may be paused
    "async": 3,  # read in an event loop and cancelled there
    "broken": 1,  # its own function fails
    "refused": 1,  # it is wrong
}
"""How a request goes, with its weight."""
LATEST = 4.0
"""Most seconds before a late reader begins."""
GRACE = 120.0
"""Seconds in which everything must end once the readers stop."""


@dataclass(frozen=True)
class Case:
    """A request and plain decoding's answer to it."""

    prompt: list[int]
    params: SamplingParams
    expected: tuple[int, ...]
    unstopped: tuple[int, ...]
    """The answer as it would go on without stop strings: what may be seen of one that was ended early."""


def options() -> list[dict[str, Any]]:
    """Return the sampling options of the cases; they come in turn."""
    found: list[dict[str, Any]] = [
        {},
        {"temperature": 0.8, "top_p": 0.9},
        {"ignore_eos": True, "max_tokens": LONGEST},
        {"stop": ("\n", "the", "e ")},
        {"temperature": 1.0, "presence_penalty": 0.7, "frequency_penalty": 0.3},
        {"repetition_penalty": 1.3, "logprobs": 3},
        {"temperature": 1.2, "min_p": 0.05, "typical_p": 0.9, "top_k": 50},
        {"no_repeat_ngram_size": 3, "min_tokens": 10},
        {"temperature": 0.7, "banned_tokens": (5,), "logit_bias": {7: 1.5}, "prompt_logprobs": 0},
    ]
    if find_spec("llguidance") is not None:
        found.append({"regex": "([a-z]{1,8} ){1,12}[a-z]+[.]"})
    return found


def cases(llm: LLM, count: int, tokens: int, seed: int) -> list[Case]:
    """Return requests with their answers; prompts are short, long, and some begin alike."""
    texts = [prompt.turns[0] for prompt in open_suite("own").prompts]
    room = llm.model.target.context_limit - LONGEST - 1
    plain = llm.using(drafter="none")
    found = []
    for index in range(count):
        joined = "\n\n".join(texts[index % 5 :][: 1 + 2 * (index % 4)])
        prompt = llm.encode(joined, chat=llm.model.tokenizer.has_chat_template)[: min(600, room)]
        choice = options()[index % len(options())]
        params = SamplingParams(**{"max_tokens": tokens, "seed": seed + index, **choice})
        expected = unstopped = plain.generate(prompt, params).token_ids
        if params.stop:
            unstopped = plain.generate(prompt, replace(params, stop=())).token_ids
        found.append(Case(prompt, params, expected, unstopped))
    return found


class Counted:
    """A drafter that counts how often a sequence was opened and closed."""

    def __init__(self, drafter: Any) -> None:
        self._drafter = drafter
        self.opened = self.closed = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._drafter, name)

    def open(self, prompt: Sequence[int], tenant: str = "", *caches: Any) -> Any:
        self.opened += 1
        return self._drafter.open(prompt, tenant, *caches)

    def close(self, state: Any) -> None:
        self.closed += 1
        self._drafter.close(state)


class Broken:
    """A user's function that fails after a few rows."""

    def __init__(self) -> None:
        self._left = 5

    def __call__(self, tokens: Sequence[int], logits: Any) -> Any:
        self._left -= 1
        if self._left < 0:
            raise ZeroDivisionError("on purpose")
        return logits


class Reader:
    """One thread's requests, one after the other, and what became of them."""

    def __init__(self, service: Service, chosen: Sequence[Case], seed: int) -> None:
        self.service, self.cases = service, chosen
        self.draw = random.Random(seed)
        self.ends: Counter[str] = Counter()
        self.faults: list[str] = []
        self.begun = 0
        self.tokens = 0
        self.slowest = 0.0

    def run(self, until: float) -> None:
        kinds, weights = zip(*KINDS.items(), strict=True)
        while time.monotonic() < until:
            self.once(self.draw.choices(kinds, weights)[0])
            time.sleep(self.draw.expovariate(4.0))

    def once(self, kind: str) -> None:
        """Submit one request and see it to its end."""
        case = self.draw.choice(self.cases)
        priority = self.draw.choice((0, 0, 0, 1, 2))
        timeout = self.draw.uniform(0.0, 2.0) if kind == "timeout" else None
        params, prompt = case.params, case.prompt
        if kind == "broken":
            params = replace(params, logits_processors=(Broken(),))
        if kind == "refused":
            prompt = []
        started = time.monotonic()
        try:
            handle = self.service.submit(prompt, params, priority=priority, timeout=timeout)
            read = self.follow(kind, handle)
        except OverloadedError:
            self.ends["overloaded"] += 1
        except PromptError as error:
            self.note(kind, error, kind == "refused")
        except OptionError as error:
            self.note(kind, error, kind == "broken" and "on purpose" in str(error))
        except Exception as error:
            self.note(kind, error, False)
        else:
            self.check(kind, handle, read, case)
            self.slowest = max(self.slowest, time.monotonic() - started)

    def follow(self, kind: str, handle: Handle) -> list[int]:
        """Return the tokens that were read before the request ended or was left."""
        read: list[int] = []
        if kind == "async":
            return asyncio.run(self.cancelled(handle))
        if kind == "late":
            time.sleep(self.draw.uniform(0.0, LATEST))
        few = self.draw.randint(1, 12)
        try:
            for count, chunk in enumerate(handle, start=1):
                read += chunk.token_ids
                if kind == "cancel" and count == few:
                    handle.cancel()
                if kind == "drop" and count == few:
                    break
        finally:
            self.begun += handle.request.clock.begun is not None
        return read

    async def cancelled(self, handle: Handle) -> list[int]:
        """Read in an event loop until a moment comes, then be cancelled; the rest comes all the same."""
        read: list[int] = []

        async def take() -> None:
            async for chunk in handle:
                read.extend(chunk.token_ids)

        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(take(), self.draw.uniform(0.0, 1.5))
        await take()
        self.begun += handle.request.clock.begun is not None
        return read

    def check(self, kind: str, handle: Handle, read: list[int], case: Case) -> None:
        """Compare what was read with plain decoding's answer."""
        result = handle.request.result if kind != "drop" else None
        reason = "dropped" if result is None else result.finish_reason
        whole = result is not None and reason in ("stop", "length")
        tokens = read if result is None else list(result.token_ids)
        expected = list(case.expected if whole else case.unstopped[: len(tokens)])
        if tokens != expected or read[: len(tokens)] != tokens:
            self.faults.append(f"{kind}: a text differs from plain decoding's ({case.params})")
        elif kind == "broken" and not whole:
            self.faults.append(f"broken: it ended with {reason}, without its error")
        self.tokens += len(tokens)
        self.ends[reason] += 1

    def note(self, kind: str, error: Exception, expected: bool) -> None:
        """Count an error that was to come; keep any other."""
        if expected:
            self.ends[kind] += 1
        else:
            self.faults.append(f"{kind}: {type(error).__name__}: {error}")


class Memory(threading.Thread):
    """Samples resident memory once a second, in MiB."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.samples: list[float] = []
        self.stop = threading.Event()

    def run(self) -> None:
        while not self.stop.wait(1.0):
            self.samples.append(resident())


def resident() -> float:
    """Return this process's resident memory in MiB; the most it ever was where only that is known."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * resource.getpagesize() / 2**20
    except OSError:
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most / (2**20 if sys.platform == "darwin" else 2**10)


def slope(samples: Sequence[float]) -> float | None:
    """Return the slope of the second half of the samples, in MiB a minute (least squares)."""
    half = samples[len(samples) // 2 :]
    if len(half) < 2:
        return None
    return float(60 * np.polyfit(np.arange(len(half)), half, 1)[0])


def objects() -> Counter[str]:
    """Count the living objects of this package's classes."""
    gc.collect()
    names = (f"{type(thing).__module__}.{type(thing).__qualname__}" for thing in gc.get_objects())
    return Counter(name for name in names if name.startswith("outrider."))


SIZES = ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks")


class Mallinfo(ctypes.Structure):
    """What glibc's mallinfo2 returns."""

    _fields_ = [(name, ctypes.c_size_t) for name in (*SIZES, "keepcost")]


def allocated() -> dict[str, int | None]:
    """Return what is allocated: Python's blocks, and the bytes of malloc's (None where it is not glibc's).

    Resident memory also holds what was freed and is kept for later: where it grows and this does not, nothing
    is lost.
    """
    count = None
    with contextlib.suppress(OSError, AttributeError):
        mallinfo2 = ctypes.CDLL(None).mallinfo2
        mallinfo2.restype = Mallinfo
        info = mallinfo2()
        count = info.uordblks + info.hblkhd
    return {"blocks": sys.getallocatedblocks(), "bytes": count}


def serve(
    llm: LLM, limits: Limits, chosen: Sequence[Case], readers: int, seconds: float, seed: int
) -> dict[str, Any]:
    """Run readers on a service of their own and return what became of their requests."""
    engine: Engine = llm.engine(limits)
    service = Service(engine)
    crowd = [Reader(service, chosen, seed + number) for number in range(readers)]
    until = time.monotonic() + seconds
    threads = [threading.Thread(target=reader.run, args=(until,), daemon=True) for reader in crowd]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, until + GRACE - time.monotonic()))
    stuck = sum(thread.is_alive() for thread in threads)
    while engine.busy and time.monotonic() < until + GRACE:
        time.sleep(0.01)
    busy = engine.busy
    service.close()
    ends: Counter[str] = Counter()
    for reader in crowd:
        ends.update(reader.ends)
    return {
        "requests": sum(ends.values()) + sum(len(reader.faults) for reader in crowd),
        "ends": dict(sorted(ends.items())),
        "tokens": sum(reader.tokens for reader in crowd),
        "begun": sum(reader.begun for reader in crowd),
        "slowest_seconds": max(reader.slowest for reader in crowd),
        "stuck_readers": stuck,
        "busy_at_the_end": busy,
        "faults": [fault for reader in crowd for fault in reader.faults],
    }


def soak(llm: LLM, arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the document of one soak; `llm` is loaded with a store of prefixes."""
    made = build_drafter(arguments.drafter, llm.model, weights=arguments.weights)
    chosen = cases(llm, arguments.cases, arguments.tokens, arguments.seed)
    longest = max(len(case.prompt) for case in chosen) + LONGEST
    each = llm.model.target.new_cache().bytes_with(longest)
    cache_bytes = 3 * (each + sum(kind.bytes_for(longest, 0) for kind in made.caches))
    limits = Limits(running=8, waiting=arguments.readers // 2, cache_bytes=cache_bytes)
    store = llm.prefixes
    assert store is not None
    # One service first, so that what is set up once is not taken for a leak.
    serve(
        llm.using(drafter=made), limits, chosen, arguments.readers, arguments.warm_up, arguments.seed + 1000
    )
    store.free(store.nbytes)
    before, held = objects(), allocated()
    drafter = Counted(made)
    memory = Memory()
    memory.start()
    found = serve(
        llm.using(drafter=drafter), limits, chosen, arguments.readers, 60 * arguments.minutes, arguments.seed
    )
    memory.stop.set()
    memory.join()
    store.free(store.nbytes)
    opened, closed = drafter.opened, drafter.closed
    left, still_held = objects() - before, allocated()
    samples = memory.samples
    tenth = max(1, len(samples) // 10)
    return {
        "schema": {"name": "outrider.bench.soak", "version": 1},
        "minutes": arguments.minutes,
        "readers": arguments.readers,
        "drafter": arguments.drafter,
        "limits": {"running": limits.running, "waiting": limits.waiting, "cache_bytes": cache_bytes},
        **found,
        "preemptions": opened - found["begun"],
        "drafts_left_open": opened - closed,
        "pages_left_held": len(store),
        "objects_left": dict(left),
        "allocated_before": held,
        "allocated_after": still_held,
        "memory": {
            "mib_first": median(samples[:tenth]) if samples else None,
            "mib_last": median(samples[-tenth:]) if samples else None,
            "mib_most": max(samples, default=None),
            "mib_per_minute": slope(samples),
            "mib": [round(sample, 1) for sample in samples],
        },
    }


def failures(document: dict[str, Any]) -> list[str]:
    """Return what is wrong, in words; memory is for people to judge."""
    found = list(document["faults"])
    for name in ("stuck_readers", "busy_at_the_end", "drafts_left_open", "pages_left_held", "objects_left"):
        if document[name]:
            found.append(f"{name}: {document[name]}")
    return found


def parsed(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="demo")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--readers", type=int, default=12)
    parser.add_argument("--cases", type=int, default=20, help="different requests")
    parser.add_argument("--tokens", type=int, default=48, help="most tokens of most answers (10 at least)")
    parser.add_argument("--warm-up", type=float, default=20.0, help="seconds before anything is counted")
    parser.add_argument("--drafter", default="suffix")
    parser.add_argument("--weights", default="auto")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    return parser.parse_args(words)


def main() -> None:
    arguments = parsed()
    llm = outrider.load(
        arguments.model, weights=arguments.weights, threads=arguments.threads, prefix_bytes=2**30
    )
    document = soak(llm, arguments)
    document["provenance"] = provenance(llm.model, ("python", "benchmarks/soak.py"))
    memory = document["memory"]
    print(
        f"{document['requests']} requests, {document['tokens']} tokens, {document['preemptions']} preemptions"
    )
    print("ends:", ", ".join(f"{name} {count}" for name, count in document["ends"].items()))
    if memory["mib_per_minute"] is not None:
        print(
            f"memory: {memory['mib_first']:.0f} MiB at first, {memory['mib_last']:.0f} at last, "
            f"{memory['mib_per_minute']:+.2f} MiB a minute in the second half"
        )
    before, after = document["allocated_before"], document["allocated_after"]
    print(f"allocated: {after['blocks'] - before['blocks']:+d} blocks of Python's", end="")
    print(
        ""
        if after["bytes"] is None
        else f", {(after['bytes'] - before['bytes']) / 2**10:+.0f} KiB of malloc's"
    )
    wrong = failures(document)
    print(
        "\n".join(wrong) if wrong else "every text is plain decoding's, every request ended, nothing is left"
    )
    if arguments.json:
        print(json.dumps(document))
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
