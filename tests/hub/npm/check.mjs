// The cache as Hugging Face's own JavaScript client sees it: node check.mjs FAKE_HUB PULL_TOOL
// 1. It scans what slipstream pulled without a warning, and finds every file offline.
// 2. It downloads the same files from the same server into a cache of its own; blobs, refs and snapshots of
//    both agree in type, path, link target and size.
// 3. It scans a cache in which a pull was killed halfway without a warning.
import { spawn, spawnSync } from "node:child_process";
import assert from "node:assert/strict";
import crypto from "node:crypto";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import readline from "node:readline";
import { downloadFileToCacheDir, scanCacheDir, snapshotDownload } from "@huggingface/hub";

console.debug = () => {};  // the package tells of every file

const [serverProgram, pullProgram] = process.argv.slice(2);
const work = fs.mkdtempSync(path.join(os.tmpdir(), "slip-npm-"));
const repositories = {
  "acme/gemma-test-it": {
    "config.json": '{"model_type":"gemma4"}',
    "generation_config.json": '{}',
    "tokenizer.json": crypto.randomBytes(1_500_000),
    "chat_template.jinja": "{{ messages }}",
    "model.safetensors.index.json":
      '{"weight_map":{"a":"model-00001-of-00002.safetensors","b":"model-00002-of-00002.safetensors"}}',
    "model-00001-of-00002.safetensors": crypto.randomBytes(60_000_000),
    "model-00002-of-00002.safetensors": crypto.randomBytes(5_000_000),
  },
  "acme/gemma-test-it-assistant": {
    "config.json": '{"model_type":"gemma4_assistant"}',
    "model.safetensors": crypto.randomBytes(2_000_000),
  },
};

function writeRepositories() {
  for (const [name, files] of Object.entries(repositories)) {
    const folder = path.join(work, "models", name);
    fs.mkdirSync(folder, { recursive: true });
    for (const [file, bytes] of Object.entries(files)) fs.writeFileSync(path.join(folder, file), bytes);
  }
}

async function startServer() {
  const server = spawn(serverProgram, [path.join(work, "models")], { stdio: ["pipe", "pipe", "inherit"] });
  const lines = readline.createInterface({ input: server.stdout });
  for await (const line of lines) return { server, url: line.trim() };
  throw new Error("the fake hub did not start");
}

function environmentFor(url, cache) {
  return { ...process.env, HF_ENDPOINT: url, HF_HUB_CACHE: cache, HF_TOKEN: "" };
}

/// "l snapshots/.../config.json ../../blobs/... " for everything but folders' sizes.
function describe(folder, below = "") {
  const lines = [];
  for (const entry of fs.readdirSync(path.join(folder, below)).sort()) {
    const name = path.join(below, entry);
    const info = fs.lstatSync(path.join(folder, name));
    if (info.isSymbolicLink()) lines.push(`l ${name} ${fs.readlinkSync(path.join(folder, name))} ${info.size}`);
    else if (info.isDirectory()) lines.push(`d ${name}`, ...describe(folder, name));
    else lines.push(`f ${name} ${info.size}`);
  }
  return lines;
}

async function scanWithoutWarning(cache) {
  const scanned = await scanCacheDir(cache);
  assert.deepEqual(scanned.warnings.map(String), []);
  return scanned;
}

async function check(url) {
  const ours = path.join(work, "ours"), theirs = path.join(work, "theirs");
  const pulled = spawnSync(pullProgram, ["acme/gemma-test-it"], { env: environmentFor(url, ours), encoding: "utf8" });
  assert.equal(pulled.status, 0, pulled.stdout);

  const scanned = await scanWithoutWarning(ours);
  assert.deepEqual(scanned.repos.map((repo) => repo.id.name).sort(), Object.keys(repositories).sort());
  for (const repo of scanned.repos) {
    const files = repositories[repo.id.name];
    const revision = repo.revisions[0];
    assert.equal(repo.revisions.length, 1);
    assert.deepEqual(revision.refs, ["main"]);
    assert.equal(revision.files.length, Object.keys(files).length);
    for (const [file, bytes] of Object.entries(files)) {
      const found = await downloadFileToCacheDir({
        repo: repo.id.name,
        path: file,
        revision: revision.commitOid,
        cacheDir: ours,
        fetch: () => { throw new Error("asked the network for " + file); },
      });
      assert.ok(fs.readFileSync(found).equals(Buffer.from(bytes)), file);
    }
    await snapshotDownload({ repo: repo.id.name, cacheDir: theirs, hubUrl: url });
    const folder = "models--" + repo.id.name.replace("/", "--");
    for (const part of ["blobs", "refs", "snapshots"]) {
      assert.deepEqual(describe(path.join(ours, folder, part)), describe(path.join(theirs, folder, part)), part);
    }
  }

  // What it downloaded is used: nothing is fetched again.
  const again = spawnSync(pullProgram, ["acme/gemma-test-it"], { env: environmentFor(url, theirs), encoding: "utf8" });
  assert.equal(again.status, 0, again.stdout);
  assert.match(again.stdout, /fetched: 0\n/);

  const half = path.join(work, "half");
  const killed = spawn(pullProgram, ["acme/gemma-test-it", "1"], { env: environmentFor(url, half), stdio: "ignore" });
  const blobs = path.join(half, "models--acme--gemma-test-it", "blobs");
  const marks = () => fs.existsSync(blobs) && fs.readdirSync(blobs).some((name) => name.endsWith(".slipstream"));
  for (let i = 0; i < 2000 && !marks(); ++i) await new Promise((done) => setTimeout(done, 5));
  killed.kill("SIGKILL");
  await new Promise((done) => killed.once("exit", done));
  await scanWithoutWarning(half);
  console.log("the cache is as Hugging Face's client has it");
}

writeRepositories();
const { server, url } = await startServer();
let status = 0;
try {
  await check(url);
} catch (error) {
  console.error(error);
  status = 1;
} finally {
  server.kill();
  fs.rmSync(work, { recursive: true, force: true });
}
process.exit(status);
