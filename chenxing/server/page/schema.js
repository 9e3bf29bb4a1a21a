// A JSON Schema as a few words, and a small example of what it asks for.

import { element } from "./dom.js";

const EXAMPLES = {
  messages: [{ role: "user", content: "Why is the sky blue?" }],
  prompt: "The sky is blue because",
  content: "The sky",
  tokens: [1, 2, 3],
  filename: "slot.json",
  input_prefix: "def add(a, b):\n    return ",
  input_suffix: "\n",
};

// Null is left out: a field that is null is as one that is not there.
export function typeNodes(schema) {
  const options = (schema.anyOf ?? [schema]).filter((option) => option.type !== "null");
  return options.flatMap((option, i) => (i ? [" or ", ...one(option)] : one(option)));
}

function one(schema) {
  if (schema.$ref) {
    const name = schema.$ref.split("/").at(-1);
    return [element("a", { href: `#schema-${name}`, textContent: name })];
  }
  if (schema.enum) return [schema.enum.filter((value) => value !== null).map((value) => JSON.stringify(value)).join(" or ")];
  if (schema.type === "array") return schema.items ? ["list of ", ...typeNodes(schema.items)] : ["list"];
  return [schema.type ?? "anything"];
}

// What has to be there.
export function example(schema) {
  const names = schema.required ?? Object.keys(schema.properties).slice(0, 1);
  return Object.fromEntries(names.map((name) => [name, EXAMPLES[name] ?? "…"]));
}
