// Talks to the server: what the settings say, and one streamed answer as events.

import { find } from "./make.js";

let name = null;

export function settings() {
  const form = find("options");
  if (!form.reportValidity()) {
    find("settings").open = true;
    form.reportValidity();
    throw new Error("A setting is out of its range.");
  }
  const number = (field) => (form[field].value === "" ? null : Number(form[field].value));
  return {
    temperature: number("temperature"), most: number("most"), budget: number("budget"),
    seed: number("seed") ?? crypto.getRandomValues(new Uint32Array(1))[0],
    chat: form.form.value === "chat", drafts: form.drafts.checked, key: form.key.value,
  };
}

async function call(path, key, options = {}) {
  const headers = { ...options.headers };
  if (key) headers.Authorization = `Bearer ${key}`;
  const answer = await fetch(path, { ...options, headers });
  if (answer.ok) return answer;
  const body = await answer.json().catch(() => null);
  throw new Error(body?.error?.message ?? `The server answered ${answer.status}.`);
}

export async function modelName(key) {
  name ??= (await (await call("v1/models", key)).json()).data[0].id;
  return name;
}

// Yields the one choice of each event. `drafts` false is plain decoding; `trees` tells of whole trees, too.
export async function* complete(messages, wanted, signal, trees = false) {
  const outrider = { trail: true, trees, speculation: true };
  if (!wanted.drafts) outrider.budget = 0;
  else if (wanted.budget !== null) outrider.budget = wanted.budget;
  const body = {
    model: await modelName(wanted.key), stream: true, temperature: wanted.temperature,
    max_tokens: wanted.most, seed: wanted.seed, outrider,
  };
  if (wanted.chat) body.messages = messages;
  else body.prompt = messages.map((message) => message.content).join("");
  const path = wanted.chat ? "v1/chat/completions" : "v1/completions";
  const headers = { "Content-Type": "application/json" };
  const answer = await call(path, wanted.key, { method: "POST", headers, signal, body: JSON.stringify(body) });
  for await (const event of events(answer.body)) {
    if (event.error) throw new Error(event.error.message);
    if (event.choices.length) yield event.choices[0];
  }
}

async function* events(stream) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let held = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const parts = (held + value).split("\n\n");
      held = parts.pop();
      for (const part of parts) {
        if (part === "data: [DONE]") return;
        if (part.startsWith("data: ")) yield JSON.parse(part.slice(6));
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}
