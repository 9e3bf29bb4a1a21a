// The conversation and the settings, as this browser keeps them.
//
// A message is {role, text} and, of an answer, {reasoning, figures, ending, failure}:
//   figures  {n, speed, cached, prompt, computed, ms}
//   ending   "stop" | "length" | "stopped" | "failed"; none while it is being written

const CONVERSATION = "chenxing.conversation";
const SETTINGS = "chenxing.settings";

export function loadConversation() {
  const found = load(CONVERSATION, []);
  const messages = Array.isArray(found) ? found.filter((m) => typeof m?.text === "string") : [];
  for (const message of messages) if (message.role !== "user") message.ending ??= "stopped"; // the page was closed
  return messages;
}

export function saveConversation(messages) {
  save(CONVERSATION, messages);
}

export function loadSettings() {
  return { system: "", key: "", ...load(SETTINGS, {}) };
}

export function saveSettings(settings) {
  save(SETTINGS, settings);
}

// Messages as the server takes them. Answers that failed have no text; questions that got none are put together, since
// many templates refuse two messages of one role in a row.
export function toSend(messages, system) {
  const sent = system.trim() ? [{ role: "system", content: system }] : [];
  for (const { role, text, reasoning } of messages) {
    const last = sent.at(-1);
    if (!text && !reasoning) continue;
    if (last?.role === role) last.content += `\n\n${text}`;
    else sent.push({ role, content: text, ...(reasoning ? { reasoning_content: reasoning } : {}) });
  }
  return sent;
}

function load(name, otherwise) {
  try {
    return JSON.parse(localStorage.getItem(name)) ?? otherwise;
  } catch {
    return otherwise; // storage is off, or holds what is not ours
  }
}

function save(name, value) {
  try {
    localStorage.setItem(name, JSON.stringify(value));
  } catch {
    // full or switched off: the page goes on without
  }
}
