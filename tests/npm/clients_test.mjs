// clients_test.mjs PROGRAM: what the SDKs that people use make of the server's answers. PROGRAM is scripted_server, whose
// model says what the last message tells it to: SAY{...}END.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import OpenAI from "openai";
import Anthropic from "@anthropic-ai/sdk";
import { generateText, streamText, generateObject, tool, stepCountIs } from "ai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { ChatOpenAI } from "@langchain/openai";
import { HumanMessage, ToolMessage } from "@langchain/core/messages";
import { z } from "zod";

const server = spawn(process.argv[2], { stdio: ["pipe", "pipe", "inherit"], env: { ...process.env, SLIPSTREAM_API_KEY: "secret" } });
const [line] = await once(server.stdout, "data");
const root = `http://127.0.0.1:${Number(String(line))}`;
const url = root + "/v1";
const retries = { maxRetries: 0 };
const openai = new OpenAI({ baseURL: url, apiKey: "secret", ...retries });

const say = (text) => [{ role: "user", content: `SAY{${text}}END` }];
const weather = { type: "function", function: { name: "get_weather", description: "the weather", parameters: {
  type: "object", properties: { city: { type: "string" }, days: { type: "integer" } }, required: ["city"] } } };
const CALL = `<|tool_call>call:get_weather{city:<|"|>Oslo<|"|>,days:3}<tool_call|>`;
const THOUGHT = "<|channel>thought\nlet me see\n<channel|>";

const tests = [];
const test = (name, run) => tests.push([name, run]);
async function fails(promise, kind, check = () => {}) {
  try {
    await promise;
  } catch (error) {
    assert.ok(error instanceof kind, `${error.constructor.name} instead of ${kind.name}: ${error.message}`);
    check(error);
    return;
  }
  assert.fail("nothing failed");
}

// ---- openai

test("openai: chat, whole", async () => {
  const got = await openai.chat.completions.create({ model: "gpt-4o", messages: say("hello there") });
  assert.equal(got.choices[0].message.content, "hello there");
  assert.equal(got.choices[0].finish_reason, "stop");
  assert.equal(got.object, "chat.completion");
  assert.equal(got.model, "scripted");
  assert.equal(got.usage.total_tokens, got.usage.prompt_tokens + got.usage.completion_tokens);
  assert.equal(got.usage.prompt_tokens_details.cached_tokens, 0);
});

test("openai: chat, streamed, with its usage", async () => {
  const stream = await openai.chat.completions.create({ model: "x-scripted".slice(2), messages: say("hello é 😀 there"), stream: true,
    stream_options: { include_usage: true } });
  let text = "", usage, finish, role;
  for await (const chunk of stream) {
    role ??= chunk.choices[0]?.delta.role;
    text += chunk.choices[0]?.delta.content ?? "";
    finish = chunk.choices[0]?.finish_reason ?? finish;
    usage = chunk.usage ?? usage;
  }
  assert.equal(text, "hello é 😀 there");
  assert.equal(role, "assistant");
  assert.equal(finish, "stop");
  assert.ok(usage.completion_tokens > 0);
});

test("openai: the stream helper puts text and calls together", async () => {
  const runner = openai.chat.completions.stream({ model: "scripted", messages: say("i look" + CALL + CALL), tools: [weather] });
  const got = await runner.finalChatCompletion();
  const message = got.choices[0].message;
  assert.equal(message.content, "i look");
  assert.equal(message.tool_calls.length, 2);
  assert.deepEqual(JSON.parse(message.tool_calls[0].function.arguments), { city: "Oslo", days: 3 });
  assert.notEqual(message.tool_calls[0].id, message.tool_calls[1].id);
  assert.equal(got.choices[0].finish_reason, "tool_calls");
});

test("openai: a tool's round trip", async () => {
  const messages = say(CALL + "}THEN{it is cold");
  const first = await openai.chat.completions.create({ model: "scripted", messages, tools: [weather] });
  const call = first.choices[0].message.tool_calls[0];
  messages.push(first.choices[0].message, { role: "tool", tool_call_id: call.id, content: "-3 C" });
  const second = await openai.chat.completions.create({ model: "scripted", messages, tools: [weather] });
  assert.equal(second.choices[0].message.content, "it is cold");
});

test("openai: runTools calls the function by itself", async () => {
  const runner = openai.chat.completions.runTools({ model: "scripted", messages: say(CALL + "}THEN{done"), stream: true,
    tools: [{ type: "function", function: { ...weather.function, parse: JSON.parse, function: ({ city }) => `cold in ${city}` } }] });
  assert.equal(await runner.finalContent(), "done");
});

test("openai: reasoning in its own field", async () => {
  const got = await openai.chat.completions.create({ model: "scripted", messages: say(THOUGHT + "yes"), reasoning_effort: "low" });
  assert.equal(got.choices[0].message.content, "yes");
  assert.equal(got.choices[0].message.reasoning_content, "let me see");
  assert.equal(got.choices[0].message.reasoning, "let me see");
  assert.ok(got.usage.completion_tokens_details.reasoning_tokens > 0);
});

test("openai: logprobs", async () => {
  const got = await openai.chat.completions.create({ model: "scripted", messages: say("abc"), logprobs: true, top_logprobs: 2 });
  const scores = got.choices[0].logprobs.content;
  assert.deepEqual(scores.map((score) => score.token), ["a", "b", "c"]);
  assert.equal(scores[0].top_logprobs.length, 2);
  assert.deepEqual(scores[0].bytes, [97]);
});

test("openai: n choices", async () => {
  const got = await openai.chat.completions.create({ model: "scripted", messages: say("abc"), n: 3 });
  assert.deepEqual(got.choices.map((choice) => choice.index), [0, 1, 2]);
  assert.ok(got.choices.every((choice) => choice.message.content === "abc"));
});

test("openai: stop strings and max_tokens", async () => {
  const stopped = await openai.chat.completions.create({ model: "scripted", messages: say("one. two. three."), stop: ["two"] });
  assert.equal(stopped.choices[0].message.content, "one. ");
  assert.equal(stopped.choices[0].finish_reason, "stop");
  const cut = await openai.chat.completions.create({ model: "scripted", messages: say("abcdef"), max_completion_tokens: 3 });
  assert.equal(cut.choices[0].message.content, "abc");
  assert.equal(cut.choices[0].finish_reason, "length");
});

test("openai: completions with echo", async () => {
  const got = await openai.completions.create({ model: "scripted", prompt: "SAY{abc}END", echo: true, logprobs: 1 });
  assert.equal(got.choices[0].text, "SAY{abc}ENDabc");
  assert.equal(got.choices[0].logprobs.token_logprobs[0], null);
});

test("openai: models", async () => {
  const list = await openai.models.list();
  assert.deepEqual(list.data.map((model) => model.id), ["scripted"]);
  assert.equal((await openai.models.retrieve("scripted")).id, "scripted");
});

test("openai: errors come as their classes", async () => {
  const create = (more, client = openai) => client.chat.completions.create({ model: "scripted", messages: say("a"), ...more });
  await fails(create({ temperature: -1 }), OpenAI.BadRequestError, (error) => {
    assert.equal(error.param, "temperature");
    assert.equal(error.status, 400);
  });
  await fails(create({ model: "other" }), OpenAI.NotFoundError, (error) => assert.equal(error.code, "model_not_found"));
  await fails(create({}, new OpenAI({ baseURL: url, apiKey: "wrong", ...retries })), OpenAI.AuthenticationError,
    (error) => assert.equal(error.code, "invalid_api_key"));
  await fails(create({ messages: say("a".repeat(400_000)) }), OpenAI.BadRequestError,
    (error) => assert.equal(error.code, "context_length_exceeded"));
  await fails(create({ messages: say("fail 2 abc") }), OpenAI.InternalServerError);
  await fails(openai.embeddings.create({ model: "scripted", input: "x" }), OpenAI.InternalServerError,
    (error) => assert.equal(error.status, 501));
});

test("openai: users_9 a full queue is a RateLimitError that says when to come back", async () => {
  const leave = new AbortController();
  const full = openai.chat.completions.create({ model: "scripted", messages: say("wait 60 a"), n: 128 }, { signal: leave.signal });
  const gone = fails(full, OpenAI.APIUserAbortError);
  try {
    for (let i = 0; (await (await fetch(root + "/slots", { headers: { authorization: "Bearer secret" } })).json()).length === 0; ++i) {
      assert.ok(i < 500);
      await new Promise((done) => setTimeout(done, 20));
    }
    await fails(openai.chat.completions.create({ model: "scripted", messages: say("a") }), OpenAI.RateLimitError,
      (error) => assert.ok(Number(error.headers.get("retry-after")) >= 1));
  } finally {
    leave.abort();
  }
  await gone;
});

test("openai: an error in mid-stream is thrown, never a silent end", async () => {
  const stream = await openai.chat.completions.create({ model: "scripted", messages: say("fail 9 slow abcdefghijkl"), stream: true });
  let text = "";
  await fails((async () => { for await (const chunk of stream) text += chunk.choices[0]?.delta.content ?? ""; })(), OpenAI.APIError,
    (error) => assert.match(error.message, /the device is gone/));
  assert.ok(text.startsWith("a"));
});

test("openai: abort ends the request on the server", async () => {
  const stream = await openai.chat.completions.create({ model: "scripted", messages: say("slow " + "a".repeat(5000)), stream: true });
  for await (const chunk of stream) if (chunk.choices[0]?.delta.content) break;
  stream.controller.abort();
  for (let i = 0; ; ++i) {
    const slots = await (await fetch(root + "/slots", { headers: { authorization: "Bearer secret" } })).json();
    if (slots.length === 0) break;
    assert.ok(i < 500, "the server goes on for nobody");
    await new Promise((done) => setTimeout(done, 20));
  }
});

// ---- the AI SDK

const compatible = createOpenAICompatible({ name: "slipstream", baseURL: url, apiKey: "secret", includeUsage: true });
const model = compatible("scripted");
const cold = { get_weather: tool({ description: "the weather", inputSchema: z.object({ city: z.string(), days: z.number().optional() }),
  execute: async ({ city }) => `cold in ${city}` }) };

test("ai: text and reasoning", async () => {
  const got = await generateText({ model, prompt: `SAY{${THOUGHT}yes}END`, ...retries });
  assert.equal(got.text, "yes");
  assert.equal(got.reasoningText, "let me see");
  assert.equal(got.finishReason, "stop");
});

test("ai: a stream with a tool round", async () => {
  const result = streamText({ model, prompt: `SAY{i look${CALL}}THEN{done}END`, tools: cold, stopWhen: stepCountIs(3), ...retries });
  let text = "";
  for await (const piece of result.textStream) text += piece;
  assert.equal(text, "i lookdone");
  const steps = await result.steps;
  assert.equal(steps.length, 2);
  assert.deepEqual(steps[0].toolCalls[0].input, { city: "Oslo", days: 3 });
  assert.ok((await result.totalUsage).outputTokens > 0);
});

test("ai: users_15 an object without any schema sent is answered", async () => {
  const got = await generateObject({ model, prompt: `SAY{{"a": 1} }END`, schema: z.object({ a: z.number() }), ...retries });
  assert.deepEqual(got.object, { a: 1 });
});

test("ai: errors", async () => {
  await assert.rejects(generateText({ model: compatible("other"), prompt: "x", ...retries }), (error) => error.statusCode === 404);
});

// ---- LangChain

const chain = (more = {}) => new ChatOpenAI({ model: "scripted", apiKey: "secret", configuration: { baseURL: url }, maxRetries: 0,
  useResponsesApi: false, ...more });

test("langchain: whole and streamed", async () => {
  assert.equal((await chain().invoke(`SAY{hello there}END`)).content, "hello there");
  let text = "", last;
  for await (const chunk of await chain().stream(`SAY{hello there}END`)) text += chunk.content, last = chunk.usage_metadata ?? last;
  assert.equal(text, "hello there");
  assert.ok(last.output_tokens > 0);
});

test("langchain: users_18 the name of a call is not doubled, and a round trip works", async () => {
  const bound = chain().bindTools([weather]);
  let call;
  for await (const chunk of await bound.stream(`SAY{${CALL}}THEN{done}END`)) call = call ? call.concat(chunk) : chunk;
  assert.equal(call.tool_calls.length, 1);
  assert.equal(call.tool_calls[0].name, "get_weather");
  assert.deepEqual(call.tool_calls[0].args, { city: "Oslo", days: 3 });
  const messages = [new HumanMessage(`SAY{${CALL}}THEN{done}END`), call, new ToolMessage({ tool_call_id: call.tool_calls[0].id, content: "-3" })];
  assert.equal((await bound.invoke(messages)).content, "done");
});

// ---- Anthropic

const anthropic = new Anthropic({ baseURL: root, apiKey: "secret", ...retries });
const claude = (more) => ({ model: "claude-opus-4-8", max_tokens: 1000, messages: say("hello"), ...more });
const input = { name: "get_weather", description: "the weather", input_schema: weather.function.parameters };

test("anthropic: whole and streamed", async () => {
  const got = await anthropic.messages.create(claude());
  assert.equal(got.content[0].text, "hello");
  assert.equal(got.stop_reason, "end_turn");
  assert.ok(got.usage.input_tokens > 0);
  const streamed = await anthropic.messages.stream(claude({ messages: say("hello é 😀") })).finalMessage();
  assert.equal(streamed.content[0].text, "hello é 😀");
  assert.ok(streamed.usage.output_tokens > 0);
});

test("anthropic: a tool's round trip", async () => {
  const history = say("i look" + CALL + "}THEN{done");
  const first = await anthropic.messages.stream(claude({ messages: history, tools: [input] })).finalMessage();
  assert.equal(first.stop_reason, "tool_use");
  const call = first.content.find((block) => block.type === "tool_use");
  assert.deepEqual(call.input, { city: "Oslo", days: 3 });
  history.push({ role: "assistant", content: first.content },
    { role: "user", content: [{ type: "tool_result", tool_use_id: call.id, content: "-3 C" }] });
  const second = await anthropic.messages.create(claude({ messages: history, tools: [input] }));
  assert.equal(second.content[0].text, "done");
});

test("anthropic: thinking", async () => {
  const got = await anthropic.messages.stream(claude({ max_tokens: 4000, messages: say(THOUGHT + "yes"),
    thinking: { type: "enabled", budget_tokens: 2000 } })).finalMessage();
  assert.deepEqual(got.content.map((block) => block.type), ["thinking", "text"]);
  assert.equal(got.content[0].thinking, "let me see");
});

test("anthropic: count_tokens agrees with the usage", async () => {
  const { input_tokens } = await anthropic.messages.countTokens({ model: "claude-opus-4-8", messages: say("hello") });
  assert.equal(input_tokens, (await anthropic.messages.create(claude())).usage.input_tokens);
});

test("anthropic: errors come as their classes", async () => {
  await fails(anthropic.messages.create(claude({ temperature: -1 })), Anthropic.BadRequestError);
  await fails(new Anthropic({ baseURL: root, apiKey: "wrong", ...retries }).messages.create(claude()), Anthropic.AuthenticationError);
  await fails(anthropic.messages.create(claude({ model: "other" })), Anthropic.NotFoundError);
  await fails(anthropic.messages.create(claude({ messages: say("a".repeat(400_000)) })), Anthropic.BadRequestError,
    (error) => assert.match(error.message, /prompt is too long: \d+ tokens > \d+ maximum/));
});

test("anthropic: stop sequences and max_tokens", async () => {
  const stopped = await anthropic.messages.create(claude({ messages: say("one. two."), stop_sequences: ["two"] }));
  assert.equal(stopped.stop_reason, "stop_sequence");
  assert.equal(stopped.stop_sequence, "two");
  assert.equal((await anthropic.messages.create(claude({ messages: say("abcdef"), max_tokens: 3 }))).stop_reason, "max_tokens");
});

// ---- OpenAI, responses

test("openai: responses, whole and as events", async () => {
  const got = await openai.responses.create({ model: "scripted", input: "SAY{hello}END" });
  assert.equal(got.output_text, "hello");
  assert.equal(got.status, "completed");
  const kinds = [];
  let text = "";
  for await (const event of await openai.responses.create({ model: "scripted", input: "SAY{hello}END", stream: true })) {
    kinds.push(event.type);
    if (event.type === "response.output_text.delta") text += event.delta;
  }
  assert.equal(text, "hello");
  assert.equal(kinds[0], "response.created");
  assert.equal(kinds.at(-1), "response.completed");
});

test("openai: responses with a tool's round trip", async () => {
  const tools = [{ type: "function", strict: false, ...weather.function }];
  const items = [{ role: "user", content: `SAY{${CALL}}THEN{done}END` }];
  const first = await openai.responses.stream({ model: "scripted", input: items, tools }).finalResponse();
  const call = first.output.find((item) => item.type === "function_call");
  assert.deepEqual(JSON.parse(call.arguments), { city: "Oslo", days: 3 });
  items.push(...first.output, { type: "function_call_output", call_id: call.call_id, output: "-3" });
  assert.equal((await openai.responses.create({ model: "scripted", input: items, tools })).output_text, "done");
});

let failed = 0;
for (const [name, run] of tests) {
  try {
    await Promise.race([run(), new Promise((_, late) => setTimeout(() => late(new Error("60 seconds passed")), 60_000).unref())]);
    console.log(`ok      ${name}`);
  } catch (error) {
    ++failed;
    console.log(`FAILED  ${name}\n${String(error.stack ?? error).slice(0, 1500)}`);
  }
}
console.log(`${tests.length - failed} of ${tests.length} passed`);
server.stdin.end();
await once(server, "exit");
process.exit(failed === 0 ? 0 : 1);
