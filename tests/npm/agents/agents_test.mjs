// agents_test.mjs PROGRAM [RECORD_FOLDER]: Claude Code, Codex and opencode as installed from npm, each asked to run one
// command. PROGRAM is scripted_server: its model calls the tool that the prompt says, then says "all is done".
// With RECORD_FOLDER the requests' bodies are written there, scrubbed: long texts become filler of the same length, so
// that sizes and structure stay and nobody's prompts are kept.
import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import fs from "node:fs";
import http from "node:http";
import os from "node:os";
import path from "node:path";

const [program, records] = process.argv.slice(2);
const bin = (name) => path.resolve("node_modules/.bin", name);
const server = spawn(program, { stdio: ["pipe", "pipe", "inherit"], env: { ...process.env, SLIPSTREAM_API_KEY: "secret" } });
const [line] = await once(server.stdout, "data");
const upstream = Number(String(line));

// ---- a recorder in front of it

let recorded = [];
const recorder = http.createServer((request, response) => {
  const chunks = [];
  request.on("data", (chunk) => chunks.push(chunk));
  request.on("end", () => {
    const body = Buffer.concat(chunks);
    const entry = { method: request.method, path: request.url, status: 0, body: String(body), answer: "" };
    recorded.push(entry);
    const forward = http.request({ port: upstream, host: "127.0.0.1", method: request.method, path: request.url,
      headers: { ...request.headers, host: "localhost" } }, (answer) => {
      entry.status = answer.statusCode;
      response.writeHead(answer.statusCode, answer.headers);
      answer.on("data", (chunk) => { entry.answer += chunk; response.write(chunk); });
      answer.on("end", () => response.end());
    });
    response.on("close", () => forward.destroy());
    forward.on("error", () => response.destroy());
    forward.end(body);
  });
});
await new Promise((done) => recorder.listen(0, "127.0.0.1", done));
const root = `http://127.0.0.1:${recorder.address().port}`;

// ---- scrubbing

const FILLER = "lorem ipsum dolor sit amet consectetur adipiscing elit sed do eiusmod tempor incididunt ut labore ";
const LONGEST = 80;
const NAMES = new Set(["type", "role", "name", "id", "call_id", "tool_call_id", "tool_use_id", "model", "status", "format",
  "$schema", "$ref", "media_type", "effort", "tool_choice", "detail", "pattern"]);
function scrub(value, key, home) {
  if (Array.isArray(value)) return key === "required" || key === "enum" ? value : value.map((one) => scrub(one, key, home));
  if (value && typeof value === "object")
    return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, scrub(one, name, home)]));
  if (typeof value !== "string" || NAMES.has(key)) return value;
  let text = value.replaceAll(home, "/home/user").replaceAll(os.hostname(), "host").replaceAll(os.release(), "6.1.0");
  const keep = text.match(/^x-anthropic-billing-header:[^\n]*|SAY\{[\s\S]*\}END/);
  if (key === "arguments" || key === "input_schema") return text;
  if (text.length <= LONGEST && !/[0-9a-f]{8}-[0-9a-f]{4}|20\d\d-\d\d-\d\d/.test(text)) return text;
  const head = keep ? keep[0] : "";
  return head + FILLER.repeat(Math.ceil(text.length / FILLER.length)).slice(0, Math.max(0, text.length - head.length));
}

function keep(agent, home) {
  if (!records) return;
  fs.mkdirSync(records, { recursive: true });
  recorded.filter((entry) => entry.method === "POST").forEach((entry, i) => {
    const body = scrub(JSON.parse(entry.body), "", home);
    fs.writeFileSync(path.join(records, `${agent}-${i + 1}.json`),
      JSON.stringify({ path: entry.path, body }) + "\n");
  });
}

// ---- the agents

async function project() {
  const home = fs.mkdtempSync(path.join(os.tmpdir(), "agent-"));
  const folder = path.join(home, "project");
  fs.mkdirSync(folder);
  fs.writeFileSync(path.join(folder, "README.md"), "A project.\n");
  for (const args of [["init", "-q"], ["add", "."], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "first"]])
    await new Promise((done) => execFile("git", args, { cwd: folder }, done));
  return { home, folder };
}

function run(command, args, folder, environment) {
  return new Promise((done) => {
    const child = execFile(command, args, { cwd: folder, timeout: 240_000, maxBuffer: 1 << 24,
      env: { PATH: process.env.PATH, TERM: "dumb", ...environment } },
      (error, out, err) => done({ code: error ? error.code ?? error.signal : 0, out, err }));
    child.stdin.end();
  });
}

const call = (name, fields) => `SAY{i look<|tool_call>call:${name}{${Object.entries(fields).map(([key, value]) =>
  `${key}:<|"|>${value}<|"|>`).join(",")}}<tool_call|>}THEN{all is done}END`;

const agents = {
  async claude({ home, folder }) {
    return run(bin("claude"), ["-p", call("Bash", { command: "echo 42 > made.txt", description: "make it" }), "--allowedTools", "Bash"],
      folder, { HOME: home, ANTHROPIC_BASE_URL: root, ANTHROPIC_API_KEY: "secret", DISABLE_TELEMETRY: "1", DISABLE_AUTOUPDATER: "1",
        CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1" });
  },
  async codex({ home, folder }) {
    fs.mkdirSync(path.join(home, ".codex"));
    fs.writeFileSync(path.join(home, ".codex/config.toml"), `model = "scripted"\nmodel_provider = "slip"\n
[model_providers.slip]\nname = "slip"\nbase_url = "${root}/v1"\nenv_key = "SLIP_KEY"\nwire_api = "responses"\n`);
    return run(bin("codex"), ["exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox",
      call("exec_command", { cmd: "echo 42 > made.txt" })], folder, { HOME: home, SLIP_KEY: "secret" });
  },
  async opencode({ home, folder }) {
    fs.writeFileSync(path.join(folder, "opencode.json"), JSON.stringify({ $schema: "https://opencode.ai/config.json", autoupdate: false,
      provider: { slip: { npm: "@ai-sdk/openai-compatible", name: "slip", options: { baseURL: root + "/v1", apiKey: "secret" },
        models: { scripted: { name: "scripted", limit: { context: 100000, output: 8000 } } } } } }));
    return run(bin("opencode"), ["run", "-m", "slip/scripted", call("bash", { command: "echo 42 > made.txt", description: "make it" })],
      folder, { HOME: home, OPENCODE_DISABLE_AUTOUPDATE: "1", OPENCODE_DISABLE_MODELS_FETCH: "1" });
  },
};

let failed = 0;
for (const [name, start] of Object.entries(agents)) {
  recorded = [];
  const place = await project();
  const result = await start(place);
  try {
    assert.equal(result.code, 0, `${name} ended with ${result.code}`);
    assert.ok(fs.existsSync(path.join(place.folder, "made.txt")), "its tool was not run");
    assert.match(result.out, /all is done/, "the answer after the tool's result is not shown");
    for (const entry of recorded)
      assert.ok(entry.status < 400 || entry.method === "HEAD", `${entry.method} ${entry.path}: ${entry.status} ${entry.answer.slice(0, 300)}`);
    keep(name, place.home);
    console.log(`ok      ${name}: ${recorded.map((entry) => `${entry.method} ${entry.path} ${entry.status}`).join(", ")}`);
  } catch (error) {
    ++failed;
    console.log(`FAILED  ${name}: ${error.message}\n--- out\n${result.out.slice(-1500)}\n--- err\n${result.err.slice(-1500)}\n--- requests`);
    for (const entry of recorded) {
      let tools = "";
      try { tools = (JSON.parse(entry.body).tools ?? []).map((tool) => tool.name ?? tool.function?.name ?? tool.type).join(" "); } catch {}
      console.log(`${entry.method} ${entry.path} ${entry.status} ${entry.answer.slice(0, 200)} [${tools}]`);
    }
  }
  fs.rmSync(place.home, { recursive: true, force: true });
}
recorder.close();
server.stdin.end();
process.exit(failed === 0 ? 0 : 1);
