// Elements by one call, and the clipboard. Text only ever becomes a text node: no string is parsed as HTML here.

const SVG = "http://www.w3.org/2000/svg";

export function element(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

export function icon(name) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", "0 0 24 24");
  svg.setAttribute("aria-hidden", "true");
  const use = document.createElementNS(SVG, "use");
  use.setAttribute("href", `page/symbols.svg#${name}`);
  svg.append(use);
  return svg;
}

// A button that copies what textOf returns and says for a moment that it did.
export function copyButton(words, textOf) {
  const button = element("button", { type: "button", className: "quiet copy", title: words.copy }, icon("copy"));
  button.setAttribute("aria-label", words.copy);
  button.addEventListener("click", async () => {
    if (!(await copy(textOf()))) return;
    button.replaceChildren(icon("done"));
    button.setAttribute("aria-label", words.copied);
    setTimeout(() => {
      button.replaceChildren(icon("copy"));
      button.setAttribute("aria-label", words.copy);
    }, 1500);
  });
  return button;
}

async function copy(text) {
  if (navigator.clipboard) {
    return navigator.clipboard.writeText(text).then(() => true, () => false);
  }
  // over plain http from another machine browsers have no clipboard but this one
  const area = element("textarea", { value: text, className: "unseen" });
  document.body.append(area);
  area.select();
  const isDone = document.execCommand("copy");
  area.remove();
  return isDone;
}
