// The chat: messages and answers, and the plain speed that is measured once after the first of them.

import { Answer } from "./answer.js";
import { complete, settings } from "./api.js";
import { counted, find, make } from "./make.js";
import { engineSpeed } from "./strip.js";

const PROBE = 24; // tokens over which the plain speed is measured

export class Chat {
  constructor(strip, steps) {
    Object.assign(this, { strip, steps, messages: [], running: null, probing: null, shown: [] });
    find("ask").addEventListener("submit", (event) => { event.preventDefault(); this.send(); });
    find("message").addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      this.send();
    });
    find("stop").addEventListener("click", () => this.stop());
    find("new").addEventListener("click", () => this.clear());
    document.addEventListener("keydown", (event) => { if (event.key === "Escape") this.stop(); });
  }

  stop() {
    this.running?.abort();
  }

  clear() {
    this.stop();
    this.probing?.abort();
    this.messages = [];
    find("turns").replaceChildren();
    this.strip.begin();
    this.steps.clear();
    this.shown = null;
    find("status").textContent = "A new chat.";
    find("message").focus();
  }

  async send() {
    const text = find("message").value;
    if (this.running || !text.trim()) return;
    let wanted;
    try {
      wanted = settings();
    } catch (error) {
      find("status").textContent = error.message;
      return;
    }
    this.probing?.abort();
    const running = (this.running = new AbortController());
    const asked = [...this.messages, { role: "user", content: text }];
    find("message").value = "";
    find("message").focus(); // a button that is disabled would lose it
    find("stop").disabled = false;
    find("send").disabled = true;
    find("turns").append(turn("You", make("p", "said", text)));
    const place = turn("Model");
    find("turns").append(place);
    const trees = [];
    const answer = new Answer(place, (pass) => { this.open(trees); this.steps.show(pass); });
    this.strip.begin();
    this.steps.clear();
    this.shown = trees;
    let record = null;
    try {
      for await (const choice of complete(asked, wanted, running.signal, true)) {
        const told = choice.outrider ?? {};
        record = told.passes === undefined ? record : told;
        answer.add(told.trail ?? []);
        trees.push(...(told.trees ?? []));
        if (this.shown !== trees) continue;
        this.strip.note(told.trail ?? [], told.trees ?? []);
        this.steps.add(told.trees ?? []);
        if (record) this.strip.end(record);
      }
    } catch (error) {
      if (error.name !== "AbortError") place.append(make("p", "error", error.message));
    }
    const stopped = running.signal.aborted ? "Stopped after" : "The answer has";
    find("status").textContent = `${stopped} ${counted(answer.tokens.length, "token")}`
      + (record ? `, seed ${wanted.seed}, drafter ${record.drafter}, rule ${record.rule}.` : ".");
    if (this.running === running) this.running = null;
    if (!this.running) {
      if (document.activeElement === find("stop")) find("message").focus();
      find("stop").disabled = true;
      find("send").disabled = false;
    }
    if (this.shown === null) return; // a new chat has begun
    if (answer.tokens.length) this.messages = [...asked, { role: "assistant", content: answer.text }];
    if (record && wanted.drafts && this.strip.plain === null) await this.probe(asked, wanted);
  }

  // Shows the trees of an earlier answer in the step view.
  open(trees) {
    if (this.shown === trees) return;
    this.shown = trees;
    this.steps.clear();
    this.steps.add(trees);
  }

  async probe(asked, wanted) {
    const probing = (this.probing = new AbortController());
    find("plain-speed").textContent = "measuring…";
    try {
      const plain = { ...wanted, drafts: false, most: PROBE };
      for await (const { outrider } of complete(asked, plain, probing.signal)) {
        if (outrider?.passes !== undefined) this.strip.plain ??= engineSpeed(outrider);
      }
    } catch {
      // it is measured after the next answer
    }
    if (this.probing === probing) this.probing = null;
    this.strip.draw();
  }
}

const turn = (who, ...children) => make("article", "turn", "", make("h3", "", who), ...children);
