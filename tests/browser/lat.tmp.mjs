// How quick the page is, as JSON: name → seconds. Not a test: a busy machine is no fault of the page.
//
//   TIDEMARK_URL=http://127.0.0.1:8080 node latency.bench.mjs
//
// cold_load                navigation to the first answer, nothing cached
// simulate_8b              the simulator alone in the worker, Llama 3.1 8B, both steps; median
// input_to_frame_8b_p50 …  an input event to the painted frame that answers it, dragging a slider
// longest_frame_8b         longest time between two frames while dragging
import { launch, open, started } from "./harness.mjs";

const DRAG_MS = 4_000;
const STEP_MS = 16;

const quantile = (values, share) =>
  values.toSorted((a, b) => a - b)[Math.min(values.length - 1, Math.floor(values.length * share))];

/** Drags the slider of the sequence length to and fro, at pointer rate. */
async function drag(page) {
  const box = await page.locator(".slider input[type=range]").nth(1).boundingBox();
  const y = box.y + box.height / 2;
  const at = (share) => box.x + box.width * (0.25 + 0.35 * share);
  await page.mouse.move(at(0.5), y);
  await page.mouse.down();
  const start = Date.now();
  for (let step = 0; Date.now() - start < DRAG_MS; step += 1) {
    await page.mouse.move(at(0.5 + 0.5 * Math.sin(step / 12)), y);
    await new Promise((wake) => setTimeout(wake, STEP_MS));
  }
  await page.mouse.up();
}

const browser = await launch();
const results = {};
try {
  const begin = performance.now();
  const page = await open(browser);
  await started(page);
  await page.waitForSelector(".verdict.fits, .verdict.close, .verdict.over");
  results.cold_load = (performance.now() - begin) / 1000;

  await page.selectOption("#f-preset", { index: 1 });
  await page.waitForTimeout(1500);
  await page.evaluate(() => {
    performance.clearMeasures();
    globalThis.frames_ms = [];
    let last = performance.now();
    const tick = (now) => {
      globalThis.frames_ms.push(now - last);
      last = now;
      requestAnimationFrame(tick);
    };
    requestAnimationFrame(tick);
  });
  await drag(page);
  await page.waitForTimeout(500);
  const read = (name) =>
    page.evaluate((n) => performance.getEntriesByName(n).map((entry) => entry.duration / 1000), name);
  const inputs = await read("tidemark:input-to-frame");
  const runs = await read("tidemark:simulate");
  const frames = await page.evaluate(() => globalThis.frames_ms);
  const raw = await page.evaluate(() => ["tidemark:input-to-frame","tidemark:simulate"].map((n)=>performance.getEntriesByName(n).map((e)=>[Math.round(e.startTime*10)/10,Math.round(e.duration*10)/10]))); for (let k=0;k<raw[0].length;k++){const i=raw[0][k]; const s=raw[1].find((x)=>x[0]>=i[0]-1); console.log(i.join(" "), "sim", s? (s[0]-i[0]).toFixed(1)+" +"+s[1]:"-", "then", s?(i[0]+i[1]-s[0]-s[1]).toFixed(1):"")}
  results.answers = runs.length;
  results.simulate_8b = quantile(runs, 0.5);
  results.input_to_frame_8b_p50 = quantile(inputs, 0.5);
  results.input_to_frame_8b_p95 = quantile(inputs, 0.95);
  results.longest_frame_8b = Math.max(...frames) / 1000;
} finally {
  await browser.close();
}

