"""The page at `/`, in a real browser, on a real server with a tiny model."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from browser import By, Keys, Page, browsing
from served import Served, serving, tiny_llm

CONTRAST = """
const channel = (c) => (c /= 255) <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
const numbers = (text) => text.match(/[\\d.]+/g).map(Number);
const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
const paper = (e) => {
  for (; e; e = e.parentElement) {
    const found = numbers(getComputedStyle(e).backgroundColor);
    if (found.length < 4 || found[3] > 0) return found;
  }
  return [255, 255, 255];
};
const low = [];
for (const e of document.querySelectorAll("body *")) {
  const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
  if (!(own || e.matches("input, textarea")) || !e.checkVisibility() || e.disabled) continue;
  const [a, b] = [light(numbers(getComputedStyle(e).color)), light(paper(e))].sort((x, y) => y - x);
  if ((a + 0.05) / (b + 0.05) < 4.5) low.push(`${e.tagName}.${e.className} ${e.textContent.slice(0, 20)}`);
}
return low;
"""


@pytest.fixture(scope="module")
def merged() -> Iterator[Served]:
    with serving(tiny_llm("merged:suffix+recycle")) as made:
        yield made


@pytest.fixture(scope="module")
def chromium(merged: Served) -> Iterator[Page]:
    with browsing(merged.url) as made:
        yield made


@pytest.fixture
def page(chromium: Page) -> Iterator[Page]:
    """The page, freshly loaded; at the end nothing has left the host and nothing was complained of."""
    chromium.open()
    chromium.set(temperature="0", most="60", seed="1")
    yield chromium
    chromium.script("document.getElementById('new').click()")
    assert chromium.visited() <= {chromium.url, "about://", "data://"}
    assert chromium.complaints() == []


def test_a_chat_is_told_as_it_comes_in_the_colours_of_its_origins(page: Page, merged: Served) -> None:
    page.set(most="400")
    page.get("message").send_keys("abcabc")
    page.get("send").click()
    page.until(lambda: page.all("#turns .token"))  # the first token appears
    page.answered()
    messages = [{"role": "user", "content": "abcabc"}]
    result = merged.llm.generate(messages, max_tokens=400, temperature=0)
    assert "".join(page.texts("#turns .token")) == result.text
    classes = [e.get_attribute("class") for e in page.all("#turns .token")]
    assert classes == [f"token {origin}" for origin in result.origins]
    looks = page.script(
        "return ['drafted', 'corrected', 'bonus'].map((c) => getComputedStyle("
        "document.querySelector(`#legend .${c}`)).cssText || ['color', 'textDecorationStyle'].map((p) => "
        "getComputedStyle(document.querySelector(`#legend .${c}`))[p]).join())"
    )
    assert len(set(looks)) == 3
    assert float(page.text("per-pass")) == pytest.approx(result.speculation.mean_accepted_length, abs=0.006)
    done = result.speculation
    assert page.text("kept") == f"{done.accepted} of {done.drafted}"
    depths = [re.search(r"\((\d+) of (\d+)\)", text) for text in page.texts("#depths li")]
    pairs = [(int(match[1]), int(match[2])) for match in depths if match]
    assert pairs == list(zip(done.accepted_per_position, done.drafted_per_position, strict=True))
    page.until(lambda: "tokens/s" in page.text("plain-speed"))  # measured once, after the first answer
    assert "× plain" in page.text("speed")


def test_a_conversation_goes_on_and_a_new_one_begins(page: Page, merged: Served) -> None:
    page.ask("abcabc")
    first = "".join(page.texts("#turns .token"))
    page.ask("xyz")
    told = [
        {"role": "user", "content": "abcabc"},
        {"role": "assistant", "content": first},
        {"role": "user", "content": "xyz"},
    ]
    result = merged.llm.generate(told, max_tokens=60, temperature=0)
    assert "".join(page.texts("#turns .turn:last-child .token")) == result.text
    page.get("new").click()
    assert page.texts("#turns .turn") == []
    assert page.text("pass-says") == "No pass yet."


def test_a_token_says_how_likely_it_was_when_it_is_pointed_at(page: Page) -> None:
    page.ask("abcabc")
    token = page.all("#turns .token.drafted")[0]
    page.script("arguments[0].dispatchEvent(new PointerEvent('pointerover', {bubbles: true}))", token)
    said = page.text("inspector")
    assert re.search(r"drafted by (suffix|recycle|suffix\+recycle) and kept", said)
    assert re.search(
        r"probability [\d.]+ % · draft probability [\d.]+ % · depth [1-9]\d* · pass [1-9]\d*$", said
    )


def test_the_step_view_shows_the_tree_of_any_pass_and_the_path_that_was_kept(page: Page) -> None:
    page.ask("abcabc")
    passes = int(page.get("pass").get_attribute("max") or 0)
    assert passes > 3
    drafted = kept = 0
    for number in range(1, passes + 1):
        page.script(
            "const r = document.getElementById('pass'); r.value = arguments[0];"
            "r.dispatchEvent(new Event('input'))",
            number,
        )
        said = page.text("pass-says")
        assert said.startswith(f"Pass {number}:")
        nodes, path = page.all("#tree .node:not(.added)"), page.all("#tree .node.kept")
        if nodes:
            assert f"{len(path)} of {len(nodes)}" in said
        drafted, kept = drafted + len(nodes), kept + len(path)
        for inner, outer in zip(path[1:], path, strict=False):
            parent = page.script("return arguments[0].closest('ul').closest('li').firstChild", inner)
            assert parent == outer, "what was kept is one path"
    assert page.text("kept") == f"{kept} of {drafted}"
    page.get("before").click()
    assert page.text("pass-says").startswith(f"Pass {passes - 1}:")


def test_a_click_on_a_token_shows_its_tree_also_that_of_an_earlier_answer(page: Page) -> None:
    page.ask("abcabc")
    page.ask("hello")
    token = page.all("#turns .turn:nth-child(2) .token.drafted")[-1]
    page.script("arguments[0].click()", token)
    page.script("arguments[0].focus()", token)
    match = re.search(r"pass (\d+)$", page.text("inspector"))
    assert match is not None
    assert page.text("pass-says").startswith(f"Pass {match[1]}:")


@pytest.mark.parametrize("temperature", ["0", "0.9"])
def test_a_race_says_that_both_texts_are_the_same(page: Page, temperature: str) -> None:
    page.set(temperature=temperature)
    page.driver.find_element(By.LINK_TEXT, "Race").click()
    page.get("go").click()
    page.until(lambda: "Identical" in page.text("verdict"))
    plain, fast = page.texts("#plain-text .token"), page.texts("#fast-text .token")
    assert plain == fast
    assert f"all {len(plain)} tokens" in page.text("verdict")
    assert "(seed 1)" in page.text("verdict")
    assert not page.all("#plain-text .token.drafted")
    assert page.all("#fast-text .token.drafted")
    page.command(
        "Emulation.setEmulatedMedia", features=[{"name": "prefers-reduced-motion", "value": "reduce"}]
    )
    page.get("replay").click()
    assert page.texts("#fast-text .token") == fast, "with less motion it is there at once"
    page.command("Emulation.setEmulatedMedia", features=[])


def test_everything_works_by_keyboard_and_the_focus_is_seen(page: Page) -> None:
    page.script("document.activeElement.blur(); document.getElementById('settings').open = false")
    page.tab_to("message")
    page.press("abcabc", Keys.ENTER)
    page.answered()
    page.tab(back=True)  # from the message to the answer above it
    assert page.script("return document.activeElement.className") == "text"
    page.press(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    assert page.script("return document.activeElement.matches('.token:nth-child(2)')")
    assert "pass " in page.text("inspector")
    page.press(Keys.END, Keys.ENTER)
    shown = re.search(r"pass (\d+)$", page.text("inspector"))
    assert shown is not None
    assert page.text("pass-says").startswith(f"Pass {shown[1]}:")
    page.tab_to("pass")
    page.press(Keys.HOME)
    assert page.text("pass-says").startswith("Pass 1:")
    page.script("document.getElementById('settings').open = true")
    page.script("document.querySelector('.skip').focus()")
    seen = set()
    for _ in range(40):
        page.tab()
        found = page.script(
            "const e = document.activeElement, s = getComputedStyle(e);"
            "return [e.id || e.name || e.textContent, s.outlineStyle, parseFloat(s.outlineWidth)]"
        )
        if "tree" in seen:
            break
        seen.add(found[0])
        assert found[1] != "none", found
        assert found[2] >= 2, found
    assert seen >= {"Chat", "Race", "temperature", "drafts", "message", "send", "new", "tree"}
    page.script("location.hash = '#race'; document.querySelector('.skip').focus()")
    page.tab_to("go")
    page.press(Keys.ENTER)
    page.until(lambda: "Identical" in page.text("verdict"))


def test_an_answer_can_be_stopped(page: Page, merged: Served) -> None:
    page.set(most="400")
    page.get("message").send_keys("abcabc")
    page.get("send").click()
    page.press(Keys.ESCAPE)
    page.until(lambda: "Stopped after" in page.text("status"))
    page.until(lambda: not merged.site.live)
    assert page.get("send").is_enabled()


def test_it_fits_a_phone(page: Page) -> None:
    page.command(
        "Emulation.setDeviceMetricsOverride", width=360, height=740, deviceScaleFactor=2, mobile=True
    )
    try:
        page.ask("abcabcabc " * 10)
        for fragment in ("#chat", "#race"):
            page.script("location.hash = arguments[0]", fragment)
            assert page.script("return document.documentElement.scrollWidth") <= 360
            assert page.script("return innerWidth") == 360
    finally:
        page.command("Emulation.clearDeviceMetricsOverride")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_its_ground(page: Page, scheme: str) -> None:
    page.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    paper = page.script("return getComputedStyle(document.body).backgroundColor")
    assert (paper == "rgb(255, 255, 255)") == (scheme == "light")
    page.ask("abcabc")
    assert page.script(CONTRAST) == []
    page.script("location.hash = '#race'")
    assert page.script(CONTRAST) == []
    page.command("Emulation.setEmulatedMedia", features=[])


def test_every_control_has_a_name(page: Page) -> None:
    for fragment in ("#chat", "#race"):
        page.script("location.hash = arguments[0]", fragment)
        for control in page.all("input, select, textarea, button, a, output, [role]"):
            if control.is_displayed() and control.aria_role not in ("status", "none", "generic"):
                assert control.accessible_name or control.aria_role == "status", control.get_attribute(
                    "outerHTML"
                )


def test_what_is_said_is_text_and_never_markup(page: Page) -> None:
    hostile = "<img src=x onerror=document.title='seen'><script>document.title='seen'</script>"
    page.ask(hostile)
    assert page.texts("#turns .said") == [hostile]
    assert page.all("img, #turns script") == []
    assert page.driver.title == "outrider"
    refused = page.script("try { document.body.innerHTML = 'x'; return false } catch { return true }")
    assert refused, "the policy lets no text become markup"
    page.complaints()  # that it was refused
