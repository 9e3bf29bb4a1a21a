// One session of the official npm client. Arguments: the server's base URL, the folder that holds node_modules/openai.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [baseURL, folder] = process.argv.slice(2);
const { default: OpenAI } = await import(pathToFileURL(createRequire(folder + "/").resolve("openai")));
const client = new OpenAI({ baseURL, apiKey: "none", maxRetries: 0 });
const messages = [{ role: "user", content: "What is the weather in Paris?" }];
const city = { type: "object", properties: { city: { enum: ["Paris", "Rome"] } }, required: ["city"], additionalProperties: false };
const tools = [{ type: "function", function: { name: "get_weather", parameters: city } }];

const text = await client.chat.completions.create({ model: "any", messages, max_tokens: 8 });
const stream = client.chat.completions.stream({ model: "any", messages, tools, tool_choice: "required", max_tokens: 80 });
const pieces = [];
for await (const chunk of stream) pieces.push(chunk.choices[0]?.delta);
const called = await stream.finalChatCompletion();
const schema = { type: "json_schema", json_schema: { name: "city", strict: true, schema: city } };
const json = await client.chat.completions.create({ model: "any", messages, response_format: schema, max_tokens: 80 });
let status = null;
try {
  await client.chat.completions.create({ model: "any", messages, top_p: 7 });
} catch (error) {
  status = error.status;
}
console.log(JSON.stringify({
  text: text.choices[0].message.content,
  pieces: pieces.length,
  call: called.choices[0].message.tool_calls[0].function,
  reason: called.choices[0].finish_reason,
  json: JSON.parse(json.choices[0].message.content),
  models: (await client.models.list()).data.length,
  status,
}));
