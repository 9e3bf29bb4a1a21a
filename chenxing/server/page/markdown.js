// Markdown as language models write it, to a tree of plain objects. No HTML: what looks like it is text.
//
// A subset of CommonMark and of GitHub's tables. Every step is linear in the text, or bounded: it is parsed again
// for each frame while an answer streams, and nobody vouches for what a model writes.

import { inline } from "./inline.js";

const FENCE = /^ {0,3}(`{3,}|~{3,}) *([^`]*)$/;
const HEADING = /^ {0,3}(#{1,6})(?: +(.*))?$/;
const ITEM = /^( *)([-*+]|\d{1,9}[.)])(?: +(.*)|)$/;
const QUOTE = /^ {0,3}> ?(.*)$/;
const DEEPEST = 8; // lists and quotes inside each other; what is deeper is a paragraph

export function parse(text) {
  return blocks(text.replaceAll("\r\n", "\n").replaceAll("\t", "    ").split("\n"), 0);
}

function blocks(lines, depth) {
  const found = [];
  for (let i = 0; i < lines.length; ) {
    if (!lines[i].trim()) {
      i++;
      continue;
    }
    const [block, next] = blockAt(lines, i, depth);
    found.push(block);
    i = next;
  }
  return found;
}

// The block that begins at line i, and the line after it.
function blockAt(lines, i, depth) {
  const line = lines[i];
  const fence = line.match(FENCE);
  if (fence) return code(lines, i, fence);
  const heading = line.match(HEADING);
  if (heading) {
    const title = (heading[2] ?? "").trim().replace(/(^| )#+$/, "");
    return [{ type: "heading", level: heading[1].length, children: inline(title) }, i + 1];
  }
  if (isRule(line)) return [{ type: "rule" }, i + 1];
  if (isTable(lines, i)) return table(lines, i);
  if (depth < DEEPEST && QUOTE.test(line)) return quote(lines, i, depth);
  if (depth < DEEPEST && ITEM.test(line)) return list(lines, i, depth);
  return paragraph(lines, i, depth);
}

function begins(lines, i, depth) {
  const line = lines[i];
  return (
    FENCE.test(line) ||
    HEADING.test(line) ||
    isRule(line) ||
    isTable(lines, i) ||
    (depth < DEEPEST && (QUOTE.test(line) || ITEM.test(line)))
  );
}

function isRule(line) {
  return /^(?:-{3,}|\*{3,}|_{3,})$/.test(line.replaceAll(" ", ""));
}

function paragraph(lines, i, depth) {
  const own = [lines[i++]];
  while (i < lines.length && lines[i].trim() && !begins(lines, i, depth)) own.push(lines[i++]);
  return [{ type: "paragraph", children: inline(own.map((line) => line.trim()).join("\n")) }, i];
}

// Up to a fence that is as long, or to the end: an answer that still streams has not closed it yet.
function code(lines, i, [opening, fence, info]) {
  const indent = opening.length - opening.trimStart().length;
  const own = [];
  for (i++; i < lines.length; i++) {
    const line = lines[i].trim();
    if (line.length >= fence.length && line === fence[0].repeat(line.length)) {
      i++;
      break;
    }
    own.push(dedent(lines[i], indent));
  }
  return [{ type: "code", language: info.trim().split(" ")[0], text: own.join("\n") }, i];
}

function quote(lines, i, depth) {
  const own = [];
  for (; i < lines.length && QUOTE.test(lines[i]); i++) own.push(lines[i].match(QUOTE)[1]);
  return [{ type: "quote", children: blocks(own, depth + 1) }, i];
}

// Items at one indent. Lines that are indented more belong to the item above, however little: models differ.
function list(lines, i, depth) {
  const [, indent, marker] = lines[i].match(ITEM);
  const isOrdered = /\d/.test(marker);
  const items = [];
  while (i < lines.length) {
    const item = lines[i].match(ITEM);
    if (!item || item[1].length > indent.length + 1 || /\d/.test(item[2]) !== isOrdered || isRule(lines[i])) break;
    const width = item[1].length + item[2].length + 1;
    const own = [item[3] ?? ""];
    for (i++; i < lines.length; i++) {
      const depthOfLine = lines[i].length - lines[i].trimStart().length;
      if (!lines[i].trim()) {
        if (!belongs(lines, i + 1, indent.length)) break;
      } else if (depthOfLine <= indent.length && (!lines[i - 1].trim() || begins(lines, i, depth))) break;
      own.push(dedent(lines[i], width));
    }
    items.push(blocks(own, depth + 1));
    while (i < lines.length && !lines[i].trim() && ITEM.test(lines[i + 1] ?? "")) i++;
  }
  return [{ type: "list", isOrdered, start: isOrdered ? parseInt(marker, 10) : 1, items }, i];
}

function belongs(lines, i, indent) {
  const line = lines[i] ?? "";
  return line.trim() !== "" && line.length - line.trimStart().length > indent;
}

function dedent(line, n) {
  const indent = line.length - line.trimStart().length;
  return line.slice(Math.min(n, indent));
}

function isTable(lines, i) {
  const rule = lines[i + 1];
  return lines[i].includes("|") && rule !== undefined && rule.includes("-") && /^[ |:-]+$/.test(rule) && rule.includes("|");
}

function table(lines, i) {
  const head = cells(lines[i]);
  const sides = cells(lines[i + 1]).map((cell) => (!cell.endsWith(":") ? "start" : cell.startsWith(":") ? "center" : "end"));
  const rows = [];
  for (i += 2; i < lines.length && lines[i].includes("|"); i++) rows.push(cells(lines[i]).slice(0, head.length).map(inline));
  return [{ type: "table", sides, head: head.map(inline), rows }, i];
}

function cells(line) {
  const inner = line.trim().replace(/^\|/, "").replace(/\|$/, "");
  return inner.split("|").map((cell) => cell.trim());
}
