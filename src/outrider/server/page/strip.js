// The live figures: tokens a pass, what was kept at each depth, and speed beside the measured plain speed.

import { find, make } from "./make.js";

// Tokens a second after the first event: those that came with it were waited for together with the prompt.
export class Clock {
  constructor() {
    this.begun = performance.now();
    this.first = null;
    this.last = this.begun;
    this.count = 0;
  }

  note(tokens) {
    if (!tokens) return;
    this.last = performance.now();
    if (this.first === null) this.first = this.last;
    else this.count += tokens;
  }

  get seconds() {
    return (this.last - this.begun) / 1000;
  }

  get speed() {
    return this.count && this.last > this.first ? (1000 * this.count) / (this.last - this.first) : null;
  }
}

// The engine's own speed after the first tokens, once an answer has ended.
export function engineSpeed(record) {
  return record?.decode_seconds > 0 && record.decode_tokens ? record.decode_tokens / record.decode_seconds : null;
}

export const perSecond = (speed) => (speed === null ? "–" : `${speed.toFixed(1)} tokens/s`);

export class Strip {
  constructor() {
    this.plain = null;
    this.begin();
  }

  begin() {
    this.passes = this.tokens = this.drafted = this.kept = 0;
    this.reached = [];
    this.hits = [];
    this.clock = new Clock();
    this.record = null;
    this.draw();
  }

  // Takes over what the server says at the end.
  end(record) {
    this.record = record;
    this.draw();
  }

  note(tokens, trees) {
    this.tokens += tokens.length;
    this.passes += trees.length;
    this.clock.note(tokens.length);
    for (const { nodes } of trees) {
      const depths = [];
      const reached = new Set();
      for (const node of nodes) {
        const depth = node.parent < 0 ? 0 : depths[node.parent] + 1;
        depths.push(depth);
        reached.add(depth);
        this.drafted += 1;
        if (!node.kept) continue;
        this.kept += 1;
        this.hits[depth] = (this.hits[depth] ?? 0) + 1;
      }
      for (const depth of reached) this.reached[depth] = (this.reached[depth] ?? 0) + 1;
    }
    this.draw();
  }

  draw() {
    find("per-pass").textContent = this.passes ? (this.tokens / this.passes).toFixed(2) : "–";
    find("kept").textContent = this.drafted ? `${this.kept} of ${this.drafted}` : "–";
    const speed = this.record ? engineSpeed(this.record) : this.clock.speed;
    const times = speed && this.plain ? `, ${(speed / this.plain).toFixed(2)}× plain` : "";
    find("speed").textContent = perSecond(speed) + times;
    find("plain-speed").textContent = perSecond(this.plain);
    const depths = find("depths");
    while (depths.children.length > this.reached.length) depths.lastChild.remove();
    this.reached.forEach((reached, depth) => {
      if (!depths.children[depth]) depths.append(make("li", "", "", document.createTextNode(""), make("span")));
      const hits = this.hits[depth] ?? 0;
      const [says, bar] = depths.children[depth].childNodes;
      says.data = `${Math.round((100 * hits) / reached)} % (${hits} of ${reached})`;
      bar.style.width = `${(100 * hits) / reached}%`;
    });
  }
}
