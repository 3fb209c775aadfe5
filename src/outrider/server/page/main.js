// Puts the page together.

import { modelName } from "./api.js";
import { Chat } from "./chat.js";
import { find } from "./make.js";
import { Race } from "./race.js";
import { Strip } from "./strip.js";
import { Steps } from "./tree.js";

const strip = new Strip();
new Chat(strip, new Steps());
new Race(strip);

function view() {
  if (location.hash === "#main") return; // the link that skips to the text
  const racing = location.hash === "#race";
  find("chat").hidden = racing;
  find("race").hidden = !racing;
  for (const link of document.querySelectorAll("nav a")) {
    if ((link.hash === "#race") === racing) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

async function greet() {
  try {
    find("model").textContent = await modelName(find("options").key.value);
  } catch (error) {
    find("model").textContent = error.message;
    if (!find("options").key.value) find("settings").open = true;
  }
}

find("options").addEventListener("submit", (event) => event.preventDefault());
find("options").key.addEventListener("change", greet);
addEventListener("hashchange", view);
view();
greet();
