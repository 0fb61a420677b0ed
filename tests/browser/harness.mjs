// What every browser test uses: the browser, pages that note their own faults, screenshots, axe.
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { mkdir, readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { delimiter, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

const here = dirname(fileURLToPath(import.meta.url));

/** Address of the server under test, without a slash at the end. */
export const url = process.env.TIDEMARK_URL;

function browserPath() {
  if (process.env.CHROMIUM) return process.env.CHROMIUM;
  const folders = (process.env.PATH ?? "").split(delimiter);
  const names = ["chromium", "chromium-browser", "google-chrome"];
  return names.flatMap((name) => folders.map((dir) => join(dir, name))).find(existsSync);
}

/** A headless Chromium. Close it in `after`. */
export function launch() {
  assert.ok(url, "start the tests with run.mjs: TIDEMARK_URL is not set");
  return chromium.launch({
    executablePath: browserPath(),
    args: ["--no-sandbox", "--disable-gpu", "--disable-background-networking"],
  });
}

/**
 * Opens a page in a context of its own. Whatever goes wrong in it is kept in `page.faults`: errors,
 * warnings of the console, broken requests, violations of the content security policy.
 */
export async function open(browser, path = "/", options = {}) {
  const { viewport = { width: 1440, height: 900 }, colorScheme = "light", ...rest } = options;
  const context = await browser.newContext({ viewport, colorScheme, acceptDownloads: true, ...rest });
  const page = await context.newPage();
  page.faults = [];
  page.on("pageerror", (error) => page.faults.push(`error: ${error.message}`));
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) {
      page.faults.push(`${message.type()}: ${message.text()}`);
    }
  });
  page.on("requestfailed", (request) => {
    // A page that is left cancels what it was loading.
    const reason = request.failure()?.errorText ?? "";
    if (reason !== "net::ERR_ABORTED") page.faults.push(`request: ${request.url()} ${reason}`);
  });
  page.on("request", (request) => {
    const outside = /^https?:/.test(request.url()) && !request.url().startsWith(url);
    if (outside) page.faults.push(`request to somewhere else: ${request.url()}`);
  });
  await page.goto(`${url}${path}`, { waitUntil: "load" });
  return page;
}

/** Waits until the app stands where the skeleton stood; a page that cannot start says why. */
export async function started(page) {
  const stands = () => !document.querySelector(".skeleton[aria-busy=true]");
  await page.waitForFunction(stands, null, { timeout: 10_000 }).catch((error) => {
    throw new Error(`the page did not start: ${page.faults.join("; ") || error.message}`);
  });
}

/** Fails when the page noted a fault. */
export function assertNoFaults(page) {
  assert.deepEqual(page.faults, []);
}

/** A screenshot for people, in tests/browser/shots. */
export async function shot(page, name) {
  const folder = join(here, "shots");
  await mkdir(folder, { recursive: true });
  await page.screenshot({ path: join(folder, `${name}.png`), fullPage: false });
}

/** Violations that axe finds, one line each; evaluated through the debugger, so CSP holds. */
export async function axe(page, options = {}) {
  const source = createRequire(import.meta.url).resolve("axe-core/axe.min.js");
  await page.evaluate(await readFile(source, "utf8"));
  const { violations } = await page.evaluate((o) => globalThis.axe.run(document, o), options);
  return violations.flatMap(({ id, help, nodes }) =>
    nodes.map((node) => `${id}: ${help}: ${node.target.join(" ")}`),
  );
}
