"""Requests that come and go, from an event loop: a shared document, read once, several questions at once."""

import asyncio

import outrider

DOCUMENT = " ".join(f"Box {box} holds {box * 7 % 13} lamps and stands in row {box % 5}." for box in range(40))
llm = outrider.load("demo", drafter="suffix", prefix_bytes=256 << 20)


def question(box: int) -> list[dict[str, str]]:
    """Return a conversation about the document."""
    text = f"{DOCUMENT}\n\nQuote the sentence about box {box}, and nothing else."
    return [{"role": "user", "content": text}]


async def ask(service: outrider.Service, box: int) -> str:
    """Stream one answer; cancelling the task would end the request."""
    text = ""
    params = outrider.SamplingParams(max_tokens=24)
    async for chunk in service.submit(llm.encode(question(box)), params, timeout=600):
        text += chunk.text
    return text


async def main() -> None:
    """Ask four questions at once, then one after another."""
    with llm.service(outrider.Limits(running=8, waiting=100, cache_bytes=2 << 30)) as service:
        together = await asyncio.gather(*(ask(service, box) for box in range(4)))
    for box, answer in enumerate(together):
        print(f"{box}: {answer}")
    alone = [llm.generate(question(box), max_tokens=24).text for box in range(4)]
    print(f"same texts as alone: {together == alone}")


asyncio.run(main())
