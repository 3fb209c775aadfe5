// Elements whose text is text: nothing that the server or a model says becomes markup.

export const find = (id) => document.getElementById(id);

export function make(tag, className, text, ...children) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text) element.textContent = text;
  element.append(...children);
  return element;
}

export const share = (value) => (value === null ? "unknown" : `${(100 * value).toFixed(1)} %`);

export const counted = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;

// Texts of tokens with what cannot be seen spelled out.
export const visible = (text) => text.replaceAll("\n", "⏎").replaceAll("\t", "⇥").replaceAll(" ", "␣") || "∅";
