// A text as its tokens: each in the colour of its origin; pointed at or focused, it says what it is.

import { find, make, share, visible } from "./make.js";

const SAYS = {
  drafted: (token) => `drafted by ${token.drafter} and kept`,
  corrected: () => "corrected: the model's own, after a refused guess",
  bonus: () => "bonus: the model's own, after a draft that was kept whole",
  plain: () => "plain: without a draft",
};

export function describe(token) {
  const parts = [`“${visible(token.text)}”`, SAYS[token.origin](token), `probability ${share(token.probability)}`];
  if (token.origin === "drafted") parts.push(`draft probability ${share(token.draft_probability)}`);
  return [...parts, `depth ${token.depth}`, `pass ${token.pass + 1}`].join(" · ");
}

export class Answer {
  // `opened` is called with the pass of a token that is clicked, or chosen with Enter.
  constructor(place, opened = () => {}) {
    this.tokens = [];
    this.spans = [];
    this.element = make("div", "text");
    this.element.tabIndex = 0;
    this.element.setAttribute("role", "group");
    this.element.setAttribute("aria-label", "Answer; arrow keys walk through its tokens");
    place.append(this.element);
    const at = (event) => this.spans.indexOf(event.target.closest(".token"));
    this.element.addEventListener("pointerover", (event) => this.show(at(event)));
    this.element.addEventListener("focusin", (event) => this.show(at(event)));
    this.element.addEventListener("click", (event) => {
      if (at(event) >= 0) opened(this.tokens[at(event)].pass);
    });
    this.element.addEventListener("keydown", (event) => this.key(event, at(event), opened));
  }

  add(tokens) {
    for (const token of tokens) {
      const span = make("span", `token ${token.origin}`, token.text);
      span.tabIndex = -1;
      this.tokens.push(token);
      this.spans.push(span);
      this.element.append(span);
    }
  }

  show(index) {
    if (index >= 0) find("inspector").textContent = describe(this.tokens[index]);
  }

  key(event, at, opened) {
    const last = this.spans.length - 1;
    const to = { ArrowRight: at + 1, ArrowLeft: at < 0 ? last : at - 1, Home: 0, End: last }[event.key];
    if (to !== undefined && last >= 0) {
      this.spans[Math.min(Math.max(to, 0), last)].focus();
      event.preventDefault();
    } else if (event.key === "Enter" && at >= 0) {
      opened(this.tokens[at].pass);
    }
  }

  get ids() {
    return this.tokens.map((token) => token.id);
  }

  get text() {
    return this.tokens.map((token) => token.text).join("");
  }
}
