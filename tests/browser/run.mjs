// Runs the browser tests: one server on a free loopback port, every *.test.mjs against it.
//
//   node run.mjs [PART OF A FILE NAME …]
//
// TIDEMARK is the server's binary (default: the release build), CHROMIUM the browser. The tests find
// the server's address in TIDEMARK_URL and open pages with `harness.mjs`.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const binary = process.env.TIDEMARK ?? join(here, "../../target/release/tidemark");
const START_LIMIT_MS = 20_000;

/** A port nobody listens on. Another process may take it before the server does; then it fails loudly. */
async function freePort() {
  const probe = createServer().listen(0, "127.0.0.1");
  await once(probe, "listening");
  const { port } = probe.address();
  probe.close();
  await once(probe, "close");
  return port;
}

async function startServer(data) {
  const port = await freePort();
  const server = spawn(binary, ["serve", "--port", String(port), "--data", data], {
    stdio: ["ignore", "ignore", "pipe"],
    // Settings of the person who runs the tests must not change what the page does.
    env: Object.fromEntries(
      Object.entries(process.env).filter(([name]) => !/^(TIDEMARK_|DATABASE_URL$)/.test(name)),
    ),
  });
  let log = "";
  server.stderr.on("data", (chunk) => (log = (log + chunk).slice(-10_000)));
  let ended = null;
  server.on("error", (error) => (ended = error.message));
  server.on("exit", (code, signal) => (ended ??= `exit ${code ?? signal}`));
  const url = `http://127.0.0.1:${port}`;
  const deadline = Date.now() + START_LIMIT_MS;
  while (ended === null && Date.now() < deadline) {
    const answer = await fetch(`${url}/healthz`).catch(() => null);
    if (answer?.ok) return { server, url };
    await new Promise((wake) => setTimeout(wake, 50));
  }
  server.kill("SIGKILL");
  throw new Error(`the server did not start (${ended ?? "no answer in time"}):\n${log}`);
}

async function stop(server) {
  if (server.exitCode !== null || server.signalCode !== null) return;
  const ended = once(server, "exit");
  server.kill("SIGTERM");
  const late = setTimeout(() => server.kill("SIGKILL"), 10_000);
  await ended;
  clearTimeout(late);
}

async function testFiles(parts) {
  const names = (await readdir(here)).filter((name) => name.endsWith(".test.mjs")).sort();
  const chosen = names.filter((name) => parts.length === 0 || parts.some((p) => name.includes(p)));
  if (chosen.length === 0) throw new Error("no such test file");
  return chosen.map((name) => join(here, name));
}

async function main(parts) {
  const files = await testFiles(parts);
  const data = await mkdtemp(join(tmpdir(), "tidemark-browser-"));
  try {
    const { server, url } = await startServer(data);
    try {
      // One file at a time: two browsers on two cores would make the timings worthless.
      const flags = ["--test", "--test-reporter=spec", "--test-concurrency=1"];
      const tests = spawn(process.execPath, [...flags, ...files], {
        stdio: "inherit",
        env: { ...process.env, TIDEMARK_URL: url },
      });
      const [code] = await once(tests, "exit");
      return code ?? 1;
    } finally {
      await stop(server);
    }
  } finally {
    await rm(data, { recursive: true, force: true });
  }
}

try {
  process.exitCode = await main(process.argv.slice(2));
} catch (error) {
  console.error(error.message);
  process.exitCode = 1;
}
