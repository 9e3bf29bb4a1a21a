// Spans of a line of Markdown: strings, and {type, children} for strong, emphasis, struck, code, link, break.

const SPECIAL = /[\\`*_~[\n]|https?:\/\//g;
const LINK = /\[([^[\]\n]{1,500})\]\((https?:\/\/[^\s()<>]{1,2000}(?:\([^\s()<>]{0,200}\)[^\s()<>]{0,500})?)(?: +"[^"\n]{0,500}")?\)/y;
const ADDRESS = /https?:\/\/[^\s<>"'`*|\\]{1,2000}/y;
const MARKS = [
  ["**", "strong"],
  ["__", "strong"],
  ["~~", "struck"],
  ["*", "emphasis"],
  ["_", "emphasis"],
];

export function inline(text) {
  return spans(text, 0);
}

function spans(text, depth) {
  const found = [];
  const hopeless = new Set(); // marks that nothing closes from here on: keeps the whole linear
  let plain = "";
  let i = 0;
  const put = (span, length) => {
    if (plain) found.push(plain);
    plain = "";
    found.push(span);
    i += length;
  };
  while (i < text.length) {
    SPECIAL.lastIndex = i;
    const next = SPECIAL.exec(text);
    const end = next ? next.index : text.length;
    plain += text.slice(i, end);
    i = end;
    if (!next) break;
    const span = spanAt(text, i, depth, hopeless);
    if (span) put(...span);
    else if (text[i] === "\\" && /[!-/:-@[-`{-~]/.test(text[i + 1] ?? "")) {
      plain += text[i + 1];
      i += 2;
    } else {
      plain += next[0];
      i += next[0].length;
    }
  }
  if (plain) found.push(plain);
  return found;
}

// [span, its length] or nothing, if what stands at i means itself.
function spanAt(text, i, depth, hopeless) {
  switch (text[i]) {
    case "\n":
      return [{ type: "break" }, 1];
    case "`":
      return code(text, i, hopeless);
    case "h":
      return address(text, i);
    case "[":
      LINK.lastIndex = i;
      return link(LINK.exec(text), depth);
    case "\\":
      return null;
    default:
      return depth < 6 ? marked(text, i, depth, hopeless) : null;
  }
}

function code(text, i, hopeless) {
  let n = 1;
  while (text[i + n] === "`") n++;
  const ticks = "`".repeat(n);
  if (hopeless.has(ticks)) return [ticks, n];
  for (let end = text.indexOf(ticks, i + n); end >= 0; ) {
    let length = n;
    while (text[end + length] === "`") length++;
    if (length === n) {
      const inner = text.slice(i + n, end).replaceAll("\n", " ");
      const isPadded = inner.startsWith(" ") && inner.endsWith(" ") && inner.trim();
      return [{ type: "code", text: isPadded ? inner.slice(1, -1) : inner }, end + n - i];
    }
    end = text.indexOf(ticks, end + length);
  }
  hopeless.add(ticks);
  return [ticks, n];
}

function link(match, depth) {
  return match && [{ type: "link", href: match[2], children: spans(match[1], depth + 1) }, match[0].length];
}

function address(text, i) {
  ADDRESS.lastIndex = i;
  const match = ADDRESS.exec(text);
  if (!match) return null;
  let href = match[0].replace(/[.,;:!?，。；：！？、]+$/, "");
  if (href.endsWith(")") && !href.includes("(")) href = href.slice(0, -1);
  return [{ type: "link", href, children: [href] }, href.length];
}

function marked(text, i, depth, hopeless) {
  for (const [mark, type] of MARKS) {
    if (!text.startsWith(mark, i) || hopeless.has(mark)) continue;
    const isWord = mark[0] === "_";
    if (/^(?:\s|$)/.test(text.slice(i + mark.length, i + mark.length + 1))) continue;
    if (isWord && /[\p{L}\p{N}]/u.test(text[i - 1] ?? "")) continue;
    const end = closing(text, i + mark.length, mark, isWord);
    if (end < 0) {
      hopeless.add(mark);
      continue;
    }
    return [{ type, children: spans(text.slice(i + mark.length, end), depth + 1) }, end + mark.length - i];
  }
  return null;
}

// Where mark closes what was opened before `from`; -1 if it does not.
function closing(text, from, mark, isWord) {
  for (let end = text.indexOf(mark, from + 1); end >= 0; end = text.indexOf(mark, end + 1)) {
    if (/\s/.test(text[end - 1])) continue;
    if (mark.length === 1 && (text[end + 1] === mark || text[end - 1] === mark)) {
      end++; // inside of a double mark
      continue;
    }
    if (mark.length === 2 && text[end + 2] === mark[0]) end++; // ***: the inner mark closes first
    if (isWord && /[\p{L}\p{N}]/u.test(text[end + mark.length] ?? "")) continue;
    return end;
  }
  return -1;
}
