// The step view: the draft tree of one pass, the path that was kept, and the token that the model added.

import { find, make, share, visible } from "./make.js";

export class Steps {
  constructor() {
    this.clear();
    find("before").addEventListener("click", () => this.show(this.at - 1));
    find("after").addEventListener("click", () => this.show(this.at + 1));
    find("pass").addEventListener("input", (event) => this.show(Number(event.target.value) - 1));
  }

  clear() {
    this.trees = [];
    this.at = 0;
    this.follows = true; // the newest pass is shown until somebody chooses one
    find("pass-says").textContent = "No pass yet.";
    find("tree").replaceChildren();
    this.controls();
  }

  add(trees) {
    this.trees.push(...trees);
    if (this.follows && trees.length) this.draw(this.trees.length - 1);
    this.controls();
  }

  show(pass) {
    if (pass < 0 || pass >= this.trees.length) return;
    this.follows = false;
    this.draw(pass);
    this.controls();
  }

  controls() {
    const count = this.trees.length;
    const range = find("pass");
    range.disabled = !count;
    range.min = count ? 1 : 0;
    range.max = count;
    range.value = this.at + 1;
    range.setAttribute("aria-valuetext", `${this.at + 1} of ${count}`);
    find("before").disabled = this.at <= 0;
    find("after").disabled = this.at >= count - 1;
  }

  draw(pass) {
    this.at = pass;
    const { nodes, added } = this.trees[pass];
    const kept = nodes.filter((node) => node.kept).length;
    find("pass-says").textContent = nodes.length
      ? `Pass ${pass + 1}: ${kept} of ${nodes.length} drafted tokens kept.`
      : `Pass ${pass + 1}: nothing was drafted.`;
    const branches = new Map([[-1, []]]);
    nodes.forEach((node, index) => {
      branches.set(index, []);
      branches.get(node.parent).push(index);
    });
    let end = -1; // the last node that was kept
    nodes.forEach((node, index) => { if (node.kept) end = index; });
    const after = (parent) => {
      const items = branches.get(parent).map((index) => leaf(nodes[index], after(index)));
      if (parent === end && added) items.push(addition(added, origin(nodes, branches.get(parent))));
      return items.length ? [make("ul", "", "", ...items)] : [];
    };
    find("tree").replaceChildren(...after(-1));
  }
}

function leaf(node, rest) {
  const says = `${node.kept ? "✓ kept" : "✗ left"}, ${node.drafter}`;
  const chances = `model ${share(node.probability)}, draft ${share(node.draft_probability)}`;
  const box = make("span", node.kept ? "node kept" : "node", visible(node.text), make("small", "", says), make("small", "", chances));
  return make("li", "", "", box, ...rest);
}

const origin = (nodes, refused) => (refused.length ? "corrected" : nodes.length ? "bonus" : "plain");

function addition(added, from) {
  const box = make("span", `node added ${from}`, visible(added.text), make("small", "", `＋ ${from}`), make("small", "", `model ${share(added.probability)}`));
  return make("li", "", "", box);
}
