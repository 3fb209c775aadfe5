// The race: one prompt and seed without drafts and with them, each alone, and whether the texts are the same.

import { Answer } from "./answer.js";
import { complete, settings } from "./api.js";
import { find } from "./make.js";
import { Clock, engineSpeed, perSecond } from "./strip.js";

const LANES = ["plain", "fast"];

export class Race {
  constructor(strip) {
    Object.assign(this, { strip, running: null, runs: null, timers: [] });
    find("start").addEventListener("submit", (event) => { event.preventDefault(); this.start(); });
    find("halt").addEventListener("click", () => this.running?.abort());
    find("replay").addEventListener("click", () => this.replay());
    document.addEventListener("keydown", (event) => { if (event.key === "Escape") this.running?.abort(); });
  }

  async start() {
    if (this.running) return;
    this.timers.forEach(clearTimeout);
    const running = (this.running = new AbortController());
    const runs = {};
    find("go").disabled = find("replay").disabled = true;
    find("halt").disabled = false;
    find("halt").focus(); // what is disabled would lose it
    for (const lane of LANES) clear(lane);
    try {
      const wanted = settings();
      const messages = [{ role: "user", content: find("prompt").value }];
      for (const lane of LANES) {
        find("verdict").textContent = lane === "plain" ? "Running without drafts…" : "Running with drafts…";
        runs[lane] = await run(lane, messages, { ...wanted, drafts: lane === "fast" }, running.signal);
      }
      this.strip.plain = engineSpeed(runs.plain.record) ?? this.strip.plain;
      this.strip.draw();
      this.runs = runs;
      find("verdict").textContent = verdict(runs, wanted.seed);
      find("replay").disabled = false;
    } catch (error) {
      find("verdict").textContent = error.name === "AbortError" ? "Stopped." : error.message;
    }
    this.running = null;
    find("go").disabled = false;
    if (document.activeElement === find("halt")) find("go").focus();
    find("halt").disabled = true;
  }

  // Both at once, at the pace at which they came; at once where less motion is wanted.
  replay() {
    this.timers.forEach(clearTimeout);
    this.timers = [];
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    for (const lane of LANES) {
      clear(lane);
      const answer = new Answer(find(`${lane}-text`));
      const { clock, parts, record } = this.runs[lane];
      for (const { after, tokens } of parts) {
        const play = () => { answer.add(tokens); find(`${lane}-clock`).textContent = `${(after / 1000).toFixed(2)} s`; };
        if (still) play();
        else this.timers.push(setTimeout(play, after));
      }
      const end = () => { find(`${lane}-clock`).textContent = says(clock, record); };
      if (still) end();
      else this.timers.push(setTimeout(end, 1000 * clock.seconds + 1));
    }
  }
}

async function run(lane, messages, wanted, signal) {
  const answer = new Answer(find(`${lane}-text`));
  const clock = new Clock();
  const parts = [];
  let record = null;
  for await (const choice of complete(messages, wanted, signal)) {
    const told = choice.outrider ?? {};
    const tokens = told.trail ?? [];
    if (told.passes !== undefined) record = told;
    clock.note(tokens.length);
    answer.add(tokens);
    parts.push({ after: clock.last - clock.begun, tokens });
    find(`${lane}-clock`).textContent = says(clock);
  }
  find(`${lane}-clock`).textContent = says(clock, record);
  return { ids: answer.ids, clock, parts, record };
}

function verdict({ plain, fast }, seed) {
  const differs = fast.ids.findIndex((id, index) => id !== plain.ids[index]);
  const same = differs < 0 && plain.ids.length === fast.ids.length;
  const where = (differs < 0 ? Math.min(plain.ids.length, fast.ids.length) : differs) + 1;
  const told = same
    ? `Identical: all ${plain.ids.length} tokens are the same (seed ${seed}).`
    : `Different from token ${where} on (seed ${seed}).`
      + (fast.record?.guarantee === "same_law" ? " This rule promises the same law, not the same tokens." : "");
  // The prompt was read by the run before, so only what comes after the first tokens can be compared.
  const speeds = [fast, plain].map(({ record }) => engineSpeed(record));
  const times = speeds[0] && speeds[1] ? (speeds[0] / speeds[1]).toFixed(2) : null;
  const speed = times === null ? "" : ` ${times} times the speed after the first tokens.`;
  const passes = fast.record ? ` ${fast.record.passes} passes instead of ${plain.record?.passes ?? "?"}.` : "";
  return told + passes + speed;
}

function says(clock, record = null) {
  return `${clock.seconds.toFixed(2)} s, ${perSecond(record ? engineSpeed(record) : clock.speed)}`;
}

function clear(lane) {
  find(`${lane}-text`).replaceChildren();
  find(`${lane}-clock`).textContent = "";
}
