// A tree of Markdown as elements. Only the blocks that changed are made anew, so that a selection survives a stream.

import { copyButton, element } from "./dom.js";
import { parse } from "./markdown.js";
import { words } from "./words.js";

const INLINE = { strong: "strong", emphasis: "em", struck: "s" };

export class Prose {
  constructor() {
    this.element = element("div", { className: "prose" });
    this.keys = [];
  }

  show(text) {
    const blocks = parse(text);
    const keys = blocks.map((block) => JSON.stringify(block));
    let same = 0;
    while (same < keys.length && keys[same] === this.keys[same]) same++;
    while (this.element.children.length > same) this.element.lastChild.remove();
    this.element.append(...blocks.slice(same).map(blockNode));
    this.keys = keys;
  }
}

function blockNode(block) {
  switch (block.type) {
    case "code":
      return codeNode(block);
    case "heading":
      return element(`h${Math.min(6, block.level + 2)}`, {}, ...inlineNodes(block.children)); // the page has h1, h2
    case "rule":
      return element("hr");
    case "quote":
      return element("blockquote", {}, ...block.children.map(blockNode));
    case "list":
      return listNode(block);
    case "table":
      return tableNode(block);
    default:
      return element("p", {}, ...inlineNodes(block.children));
  }
}

function codeNode({ language, text }) {
  const head = element("div", { className: "code-head" }, element("span", { textContent: language }));
  head.append(copyButton(words, () => text));
  const code = element("code", { textContent: text });
  return element("div", { className: "code" }, head, element("pre", { tabIndex: 0 }, code));
}

function listNode({ isOrdered, start, items }) {
  const list = isOrdered ? element("ol", { start }) : element("ul");
  for (const blocks of items) {
    const isPlain = blocks[0]?.type === "paragraph" && blocks.slice(1).every((block) => block.type === "list");
    const item = element("li");
    for (const [i, block] of blocks.entries()) {
      if (isPlain && i === 0) item.append(...inlineNodes(block.children));
      else item.append(blockNode(block));
    }
    list.append(item);
  }
  return list;
}

function tableNode({ sides, head, rows }) {
  const row = (tag, cells) => {
    const made = cells.map((cell, i) => element(tag, { className: `to-${sides[i] ?? "start"}` }, ...inlineNodes(cell)));
    return element("tr", {}, ...made);
  };
  const body = element("tbody", {}, ...rows.map((cells) => row("td", cells)));
  const table = element("table", {}, element("thead", {}, row("th", head)), body);
  return element("div", { className: "wide", tabIndex: 0 }, table);
}

function inlineNodes(spans) {
  return spans.map((span) => {
    if (typeof span === "string") return document.createTextNode(span);
    if (span.type === "break") return element("br");
    if (span.type === "code") return element("code", { textContent: span.text });
    if (span.type === "link") {
      const options = { href: span.href, target: "_blank", rel: "noopener noreferrer" };
      return element("a", options, ...inlineNodes(span.children));
    }
    return element(INLINE[span.type], {}, ...inlineNodes(span.children));
  });
}
