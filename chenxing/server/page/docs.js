// The API's document for people: everything here is read from openapi.json, which the server makes from its own types.

import { copyButton, element } from "./dom.js";
import { example, typeNodes } from "./schema.js";
import { words } from "./words.js";

const at = (id) => document.getElementById(id);

try {
  show(await (await fetch("openapi.json")).json());
} catch (error) {
  at("state").textContent = `openapi.json cannot be read: ${error.message}`;
}

function show(api) {
  const groups = api.tags.map(({ name }) => [name, operationsOf(api, name)]);
  const requests = new Set();
  for (const [, operations] of groups) for (const { form } of operations) requests.add(requestSchema(form)?.$ref);
  const others = Object.entries(api.components.schemas).filter(([name]) => !requests.has(`#/components/schemas/${name}`));
  at("contents").append(...groups.flatMap(([name, operations]) => contents(name, operations)));
  at("main").replaceChildren(intro(api));
  for (const [name, operations] of groups) {
    at("main").append(element("h2", { textContent: name }), ...operations.map((found) => operationNode(api, found)));
  }
  at("main").append(element("h2", { id: "objects", textContent: "Objects" }), ...others.map(([name, schema]) => objectNode(name, schema)));
  at("contents").append(element("h2", {}, element("a", { href: "#objects", textContent: "Objects" })));
  document.querySelector(location.hash || "#none")?.scrollIntoView();
}

// Operations of a tag: those that differ in their path alone are one.
function operationsOf(api, tag) {
  const found = new Map();
  for (const [path, methods] of Object.entries(api.paths)) {
    for (const [method, form] of Object.entries(methods)) {
      if (!form.tags.includes(tag)) continue;
      const key = JSON.stringify({ ...form, operationId: "", method });
      if (found.has(key)) found.get(key).paths.push(path);
      else found.set(key, { method, paths: [path], form });
    }
  }
  return [...found.values()];
}

function requestSchema(form) {
  return form.requestBody?.content["application/json"].schema;
}

function contents(name, operations) {
  const links = operations.map(({ method, paths, form }) => {
    const link = element("a", { href: `#${form.operationId}` }, badge(method), element("code", { textContent: paths[0] }));
    return element("li", {}, link);
  });
  return [element("h2", { textContent: name }), element("ul", {}, ...links)];
}

function badge(method) {
  return element("span", { className: `method ${method}`, textContent: method.toUpperCase() });
}

function intro(api) {
  const base = new URL("./", location.href).href;
  const address = element("p", {}, "Clients of OpenAI's protocol take ", element("code", { textContent: `${base}v1` }), " as their base URL.");
  const isOpen = !Object.values(api.paths).some((methods) => Object.values(methods).some((form) => form.security));
  const key = isOpen
    ? "This server asks for no API key."
    : "This server asks for an API key, as Authorization: Bearer KEY or as X-Api-Key: KEY.";
  const title = element("h1", { textContent: `The API of ${api.info.title} ${api.info.version}` });
  return element("section", {}, title, element("p", { textContent: api.info.description }), address, element("p", { textContent: key }));
}

function operationNode(api, { method, paths, form }) {
  const title = element("h3", {}, badge(method), element("code", { textContent: paths[0] }));
  if (paths.length > 1) title.append(element("span", { className: "also", textContent: `also ${paths.slice(1).join(", ")}` }));
  const node = element("section", { id: form.operationId, className: "operation" }, title);
  node.append(element("p", { className: "summary", textContent: `${form.summary}.` }));
  if (form.description) node.append(prose(form.description));
  if (form.parameters) node.append(table("Parameters", form.parameters.map(parameterRow)));
  const request = requestSchema(form);
  if (request) {
    const schema = api.components.schemas[request.$ref.split("/").at(-1)];
    node.append(curl(method, paths[0], schema, Boolean(form.security)), fieldsNode("Fields of the body", schema));
  }
  node.append(answersNode(form));
  return node;
}

function prose(text) {
  return element("p", {}, ...text.split("`").map((part, i) => (i % 2 ? element("code", { textContent: part }) : part)));
}

function parameterRow({ name, in: place, schema, description }) {
  const about = schema.enum ? `${description} One of ${schema.enum.join(", ")}.` : description;
  return [element("code", { textContent: name }), place, prose(about)];
}

function table(caption, rows) {
  const body = rows.map((cells) => element("tr", {}, ...cells.map((cell) => element("td", {}, cell))));
  const made = element("table", {}, element("caption", { textContent: caption }), element("tbody", {}, ...body));
  return element("div", { className: "wide" }, made);
}

function fieldsNode(caption, schema) {
  const required = new Set(schema.required);
  const fields = Object.entries(schema.properties ?? {});
  const order = fields.filter(([name]) => required.has(name)).concat(fields.filter(([name]) => !required.has(name)));
  const rows = order.map(([name, field]) => {
    const label = element("span", {}, element("code", { textContent: name }));
    if (required.has(name)) label.append(element("span", { className: "required", textContent: "required" }));
    return [label, element("span", { className: "type" }, ...typeNodes(field)), prose(field.description ?? "")];
  });
  const made = table("", rows);
  const head = element("summary", { textContent: `${caption} (${rows.length})` });
  return element("details", {}, head, made);
}

function curl(method, path, schema, hasKey) {
  const lines = [`curl ${new URL(`.${path}`, location.href).href}`];
  if (hasKey) lines.push('-H "Authorization: Bearer $KEY"');
  lines.push('-H "Content-Type: application/json"', `-d '${JSON.stringify(example(schema))}'`);
  const text = lines.join(" \\\n  ");
  return element("div", { className: "code" }, copyButton(words, () => text), element("pre", { tabIndex: 0 }, element("code", { textContent: text })));
}

function answersNode(form) {
  const rows = [];
  for (const [status, { description, content }] of Object.entries(form.responses)) {
    for (const [media, { schema }] of Object.entries(content)) {
      const types = media === "text/event-stream" ? ["events of ", ...typeNodes(eventSchema(schema))] : typeNodes(schema);
      rows.push([element("code", { textContent: status }), element("span", { className: "type" }, ...types), `${description}. ${media}`]);
    }
  }
  return element("details", {}, element("summary", { textContent: "Answers" }), table("", rows));
}

function eventSchema(schema) {
  return schema.properties.data.anyOf.find((option) => option.contentSchema).contentSchema;
}

function objectNode(name, schema) {
  const node = element("section", { id: `schema-${name}`, className: "operation" }, element("h3", { textContent: name }));
  if (schema.description) node.append(prose(schema.description));
  const fields = fieldsNode("Members", schema);
  fields.open = true;
  node.append(fields);
  return node;
}
