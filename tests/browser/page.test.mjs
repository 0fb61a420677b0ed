// The page as a person uses it: mouse, keyboard, files, links, languages, themes, a narrow screen.
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";

import { assertNoFaults, axe, launch, open, shot, started, url } from "./harness.mjs";

const CONFIG = {
  model_type: "llama",
  architectures: ["LlamaForCausalLM"],
  hidden_size: 512,
  intermediate_size: 1376,
  num_hidden_layers: 4,
  num_attention_heads: 8,
  num_key_value_heads: 4,
  vocab_size: 32000,
  max_position_embeddings: 4096,
  rms_norm_eps: 1e-5,
  rope_theta: 10000,
  tie_word_embeddings: true,
};

/** The verdict's text, once it answers what the form says. */
async function answer(page) {
  await page.waitForSelector(".verdict.fits, .verdict.close, .verdict.over");
  await page.waitForFunction(() => !document.querySelector('.tabs[aria-busy="true"]'));
  return (await page.locator(".verdict-text").innerText()).replace(/\s+/g, " ");
}

/** The peak in the verdict's sentence, GiB. */
const peakOf = (text) => Number(text.match(/([\d.,]+) of [\d.,]+ GiB|([\d.,]+) GiB at the peak/)?.slice(1).find(Boolean)?.replace(",", ""));

async function ready(browser, path = "/", options = {}) {
  const page = await open(browser, path, options);
  await started(page);
  await answer(page);
  return page;
}

/** Does something that changes the answer, and returns the new one. */
async function changed(page, act) {
  const before = await answer(page);
  await act();
  await page.waitForFunction(
    (old) => document.querySelector(".verdict-text").innerText.replace(/\s+/g, " ") !== old,
    before,
  );
  return answer(page);
}

/** Counts the moments at which the page says that an input is at fault. */
async function watchFaults(page) {
  await page.evaluate(() => {
    globalThis.faultsSeen = 0;
    const look = () => (globalThis.faultsSeen += document.querySelectorAll(".trouble, .faults li").length);
    new MutationObserver(look).observe(document.body, { childList: true, subtree: true });
  });
  return () => page.evaluate(() => globalThis.faultsSeen);
}

/** Bytes of a category at the peak, from the table of the open tab `peak`. */
async function atPeak(page, category) {
  const row = page.locator("#tab-panel table").first().locator("tbody tr", { hasText: category });
  return Number((await row.locator(".size").getAttribute("title")).replace(/\D/g, ""));
}

/** Drops a file on the page, as the operating system would. */
function drop(page, name, text) {
  return page.evaluate(
    ([name, text]) => {
      const data = new DataTransfer();
      data.items.add(new File([text], name, { type: "application/json" }));
      for (const type of ["dragenter", "dragover", "drop"]) {
        document.body.dispatchEvent(
          new DragEvent(type, { dataTransfer: data, bubbles: true, cancelable: true }),
        );
      }
    },
    [name, text],
  );
}

describe("page", () => {
  let browser;
  before(async () => (browser = await launch()));
  after(() => browser?.close());

  it("answers without being asked, and shows the step", async () => {
    const page = await ready(browser);
    assert.match(await answer(page), /^(Fits|Does not fit|Too close to call) .*GiB/);
    assert.ok(peakOf(await answer(page)) > 1);
    assert.ok((await page.locator(".live tbody tr:not(.spacer)").count()) > 5);
    assert.equal(await page.locator(".timeline canvas").count(), 2);
    assertNoFaults(page);
    await shot(page, "plan-light");
    await page.context().close();
  });

  it("follows the mouse: preset, GPU, optimizer, undo", async () => {
    const page = await ready(browser);
    const first = await answer(page);
    const large = await changed(page, () => page.selectOption("#f-preset", { index: 2 }));
    assert.ok(peakOf(large) > peakOf(first));
    const fused = await changed(page, () => page.selectOption("#f-gpu", "h100-sxm"));
    assert.notEqual(fused, large);
    const sgd = await changed(page, () =>
      page.locator("label.segment", { hasText: "SGD" }).click(),
    );
    assert.ok(peakOf(sgd) < peakOf(fused), `${sgd} after ${fused}`);
    assert.equal(await changed(page, () => page.click("[aria-label=Undo]")), fused);
    assert.equal(await changed(page, () => page.click("[aria-label=Redo]")), sgd);
    await page.click("#f-optimizer-1 >> xpath=../../../..//button[contains(@class,'reset-dot')]");
    assert.equal(await answer(page).then(() => page.isChecked("#f-optimizer")), true);
    assertNoFaults(page);
    await page.context().close();
  });

  it("follows the keyboard, and says what is wrong where it is wrong", async () => {
    const page = await ready(browser);
    await page.keyboard.press("Control+k");
    await page.keyboard.type("context length");
    await page.keyboard.press("Enter");
    assert.equal(await page.evaluate(() => document.activeElement.id), "f-seq-len");
    const shorter = await changed(page, () => page.fill("#f-seq-len", "1024"));
    await page.focus("#f-seq-len");
    await page.keyboard.press("Shift+Tab"); // to its slider
    const longer = await changed(page, () => page.keyboard.press("ArrowRight"));
    assert.ok(peakOf(longer) > peakOf(shorter));
    assert.equal(await page.inputValue("#f-seq-len"), "1152");

    await page.fill("#f-seq-len", "many");
    assert.equal(await page.getAttribute("#f-seq-len", "aria-invalid"), "true");
    assert.match(await page.locator(".complaint").innerText(), /whole number/);
    await page.keyboard.press("Tab");
    assert.equal(await page.inputValue("#f-seq-len"), "1152");

    await page.fill("#f-micro-batch", "0");
    await page.waitForSelector(".faults .mend");
    assert.match(await page.locator(".trouble").innerText(), /1 input|One input/);
    await page.waitForSelector(".tabs.stale");
    assert.deepEqual(await axe(page), [], "with a fault");
    await page.click(".faults .mend");
    assert.equal(await page.locator(".trouble").count(), 0);
    assert.notEqual(await page.inputValue("#f-micro-batch"), "0");
    assertNoFaults(page);
    await page.context().close();
  });

  it("takes a config.json by drop and by paste, and refuses a broken one with its fields", async () => {
    const page = await ready(browser);
    await changed(page, () => drop(page, "config.json", JSON.stringify(CONFIG)));
    assert.match(await page.locator(".import-outcome").innerText(), /config\.json is in use/);
    // Embedding 32000·512, four layers, the last norm: by hand.
    const layer = 512 * (512 + 2 * 256 + 512) + 3 * 512 * 1376 + 2 * 512;
    const count = (32000 * 512 + 4 * layer + 512).toLocaleString("en-US");
    assert.match(await page.locator(".facts span").first().getAttribute("title"), new RegExp(count));

    await page.fill("#f-config-num-attention-heads", "7");
    await page.waitForSelector(".shape-field .faults");
    assert.equal(await page.getAttribute("#f-config-num-attention-heads", "aria-invalid"), "true");
    await page.keyboard.press("Tab");
    await page.fill("#f-config-num-attention-heads", "8");

    await drop(page, "broken.json", JSON.stringify({ ...CONFIG, hidden_size: "wide", num_hidden_layers: -1 }));
    await page.waitForSelector(".import-outcome .faults li");
    const faults = await page.locator(".import-outcome").innerText();
    assert.match(faults, /broken\.json/);
    assert.match(faults, /hidden_size/);
    assert.match(faults, /num_hidden_layers/);
    await drop(page, "torn.json", '{"model_type": ');
    await page.waitForFunction(() => /torn/.test(document.querySelector(".import-outcome").innerText));
    assert.match(await page.locator(".import-outcome").innerText(), /JSON/);

    await page.click("#f-paste");
    await page.fill("#f-paste-text", JSON.stringify({ ...CONFIG, num_hidden_layers: 2 }));
    await changed(page, () => page.click(".dialog button[type=submit]"));
    assert.equal(await page.inputValue("#f-config-num-hidden-layers"), "2");
    assertNoFaults(page);
    await page.context().close();
  });

  it("deals weights and states out over eight GPUs, and back", async () => {
    const page = await ready(browser);
    const faultsSeen = await watchFaults(page);
    const facts = page.locator(".facts span").first();
    const alone = await answer(page);
    assert.equal(await page.locator("#f-data-parallel, #f-tensor-parallel").count(), 0);

    const dealt = await changed(page, () => page.fill("#f-count", "8"));
    assert.equal(await page.isChecked("#f-data-parallel-1"), true, "FSDP2");
    assert.ok(peakOf(dealt) < peakOf(alone), `${dealt} after ${alone}`);
    assert.match(await facts.innerText(), /on this rank/);
    assert.deepEqual(await axe(page), [], "with FSDP2");
    await shot(page, "fsdp2");
    const onHost = await changed(page, () => page.check("#f-cpu-offload"));
    assert.ok(peakOf(onHost) < peakOf(dealt), `${onHost} after ${dealt}`);
    await changed(page, () => page.uncheck("#f-cpu-offload"));

    await page.focus("#f-data-parallel-1");
    const whole = await changed(page, () => page.keyboard.press("ArrowLeft"));
    assert.ok(peakOf(dealt) < peakOf(whole), `${whole} after ${dealt}`);
    assert.equal(await page.isVisible("#f-bucket-view"), true);
    assert.equal(await page.locator("#f-cpu-offload").count(), 0);
    // The first digit alone would be one GPU, which shares nothing.
    await page.fill("#f-count", "");
    await page.focus("#f-count");
    await page.keyboard.type("16");
    assert.equal(await page.isChecked("#f-data-parallel"), true, "DDP");

    await page.fill("#f-count", "8");
    const split = await changed(page, () => page.fill("#f-tensor-parallel", "8"));
    assert.ok(peakOf(split) < peakOf(whole), `${split} after ${whole}`);
    assert.equal(await page.locator("#f-data-parallel").count(), 0);
    assert.equal(await faultsSeen(), 0);
    await page.fill("#f-tensor-parallel", "2");
    await page.waitForSelector(".field:has(#f-tensor-parallel) .mend");
    await page.click(".field:has(#f-tensor-parallel) .mend");
    assert.equal(await page.inputValue("#f-tensor-parallel"), "1");
    assert.equal(await page.locator(".trouble").count(), 0);

    await page.fill("#f-count", "1");
    await page.waitForFunction(
      (old) => document.querySelector(".verdict-text").innerText.replace(/\s+/g, " ") === old,
      alone,
    );
    assert.equal(await page.locator("#f-data-parallel, #f-tensor-parallel").count(), 0);
    assertNoFaults(page);
    await page.context().close();
  });

  it("shows every stage of a pipeline, and opens any of them", async () => {
    const page = await ready(browser, "/", { viewport: { width: 1440, height: 1100 } });
    await page.click("#tab-ranks");
    assert.match(await page.locator("#tab-panel").innerText(), /Every GPU of this job/);
    const first = await changed(page, () => page.selectOption("#f-preset", { label: "Llama 3.1 70B on 64 H100: tensor 8 × pipeline 4 in Megatron-core" }));
    assert.match(first, /on stage 0/);
    const cards = page.locator(".ranks button");
    assert.equal(await cards.count(), 4);
    assert.match(await page.locator("#tab-panel .caption").innerText(), /^Stage 0 of 4 is the highest: .* 4 forwards in flight/);
    const sizes = (await cards.locator(".num").allInnerTexts()).map((text) => Number.parseFloat(text));
    assert.deepEqual([...sizes].sort((a, b) => b - a), sizes, "earlier stages hold more micro-batches");
    assert.deepEqual(await axe(page), [], "ranks");
    await shot(page, "ranks");

    const tensors = () => page.locator(".live").count();
    await cards.nth(3).click();
    await page.waitForSelector("#rank-3[aria-pressed=true]");
    assert.equal(await answer(page), first, "the highest stage decides, whichever is shown");
    await page.click("#tab-cursor");
    assert.ok((await tensors()) > 0);
    assert.match(await page.locator("#tab-panel").innerText(), /output_layer|final_layernorm|decoder/);
    await page.click("#tab-ranks");
    await page.focus("#rank-1");
    await page.keyboard.press("Enter");
    await page.waitForSelector("#rank-1[aria-pressed=true]");

    await changed(page, () => page.fill("#f-pipeline-parallel", "8"));
    assert.equal(await cards.count(), 8);
    await page.fill("#f-pipeline-parallel", "7");
    await page.waitForSelector(".field:has(#f-pipeline-parallel) .faults li");
    await page.fill("#f-pipeline-parallel", "2");
    await page.waitForFunction(() => document.querySelectorAll(".ranks button").length === 2);
    await changed(page, () => page.click("label.segment:has-text('core attention')"));
    await page.click("label.segment:has-text('transformers')");
    await page.waitForFunction(() => document.querySelectorAll(".ranks button").length === 0);
    assert.equal(await page.locator("#f-pipeline-parallel").count(), 0);
    assert.equal(await page.locator(".trouble").count(), 0);
    assertNoFaults(page);
    await page.context().close();
  });

  it("shows the stages in the dark, in Chinese, on a narrow screen", async () => {
    const options = { viewport: { width: 390, height: 844 }, colorScheme: "dark", locale: "zh-CN" };
    const page = await ready(browser, "/", options);
    await page.click(".sheet-open");
    await page.selectOption("#f-preset", { index: 7 });
    await page.click(".sheet-done");
    await page.click("#tab-ranks");
    await page.waitForSelector("#rank-3");
    assert.match(await page.locator("#tab-panel .caption").innerText(), /第 0 级最高/);
    await page.locator("#rank-0").scrollIntoViewIfNeeded();
    assert.deepEqual(await axe(page), []);
    const overflow = document => document.documentElement.scrollWidth - document.documentElement.clientWidth;
    assert.equal(await page.evaluate(`(${overflow})(document)`), 0);
    await shot(page, "ranks-narrow-dark-chinese");
    await page.context().close();
  });

  it("trains an adapter beside frozen weights", async () => {
    const page = await ready(browser);
    await page.click("#tab-peak");
    const [before, states] = [await answer(page), await atPeak(page, "Optimizer states")];
    const faultsSeen = await watchFaults(page);
    const adapted = await changed(page, () => page.check("#f-adapter"));
    assert.equal(await faultsSeen(), 0);
    assert.ok(peakOf(adapted) < peakOf(before), `${adapted} after ${before}`);
    const few = await atPeak(page, "Optimizer states");
    assert.ok(few < states / 20, `${few} bytes of states after ${states}`);
    assert.match(await page.locator(".facts span").first().innerText(), /trained/);
    assert.deepEqual(await axe(page), [], "with an adapter");
    await page.locator("#f-adapter").scrollIntoViewIfNeeded();
    await shot(page, "lora");

    const counted = () => page.locator(".facts span").first().getAttribute("title");
    const two = await counted();
    await page.focus("#f-adapter-targets");
    await page.keyboard.press("Tab");
    await page.keyboard.press("Space"); // the second of the model's modules
    await page.waitForFunction((old) => document.querySelector(".facts span").title !== old, two);
    const targets = page.locator(".targets input");
    for (const index of (await targets.all()).keys()) await targets.nth(index).uncheck();
    await page.waitForSelector(".targets ~ [role=alert] .faults");
    await page.click(".field:has(.targets) .reset-dot");
    await page.waitForFunction((old) => document.querySelector(".facts span").title === old, two);
    await page.fill("#f-adapter-rank", "64");
    await page.waitForFunction((old) => document.querySelector(".facts span").title !== old, two);

    await changed(page, () => page.click(".field:has(#f-adapter) .reset-dot"));
    assert.equal(await page.locator("#f-adapter-rank").count(), 0);
    await changed(page, () => page.fill("#f-count", "8"));
    await page.check("#f-adapter");
    await page.waitForSelector(".field:has(#f-adapter) .faults");
    assert.deepEqual(await axe(page), [], "with an adapter that cannot be");
    // Shards want factors in the weights' type, and the mend gives them that.
    await page.click(".field:has(#f-adapter) .mend");
    await page.waitForSelector(".trouble", { state: "detached" });
    assert.equal(await page.isChecked("#f-adapter"), true);
    assertNoFaults(page);
    await page.context().close();
  });

  it("asks for a length where the model reads texts, and for a second one where it writes them", async () => {
    const page = await ready(browser);
    const faultsSeen = await watchFaults(page);
    await changed(page, () => page.selectOption("#f-model", "vit-base-patch16-224"));
    assert.equal(await page.locator("#f-seq-len, #f-target-len").count(), 0);
    await page.fill("#f-search", "context length");
    assert.equal(await page.locator("#f-search-hits li").count(), 0);
    await page.fill("#f-search", "");
    await changed(page, () => page.selectOption("#f-model", "t5-small"));
    assert.equal(await page.inputValue("#f-seq-len"), "2048");
    assert.equal(await page.getAttribute("#f-target-len", "placeholder"), "as the input");
    await changed(page, () => page.fill("#f-target-len", "128"));
    await changed(page, () => page.selectOption("#f-model", "resnet-50"));
    assert.equal(await page.locator("#f-seq-len, #f-target-len, #f-attention, #f-checkpointing").count(), 0);
    await page.check("#f-channels-last");
    await changed(page, () => page.selectOption("#f-model", "llama-3.2-1b"));
    assert.equal(await page.locator("#f-target-len, #f-channels-last").count(), 0);
    assert.equal(await page.isVisible("#f-attention"), true);
    await changed(page, () => page.check("#f-compile"));
    assert.match(await page.locator(".tag.warn").innerText(), /approximated/);
    await changed(page, () => page.uncheck("#f-compile"));
    assert.equal(await faultsSeen(), 0);
    assertNoFaults(page);
    await page.context().close();
  });

  it("keeps everything in its address, and says when a prediction has changed", async () => {
    const page = await ready(browser);
    await changed(page, () => page.fill("#f-seq-len", "2048"));
    await page.click("#tab-peak");
    await page.click("#step button >> nth=0");
    const said = await answer(page);
    await page.waitForFunction(() => /step=first/.test(location.search) && /[?&]p=/.test(location.search));
    await page.reload();
    await started(page);
    assert.equal(await answer(page), said);
    assert.equal(await page.inputValue("#f-seq-len"), "2048");
    assert.equal(await page.getAttribute("#tab-peak", "aria-selected"), "true");
    assert.equal(await page.locator(".notice").count(), 0);

    const old = page.url().replace(/([?&]p=)\d+\.\d+/, "$1999.12345678901");
    await page.goto(old);
    await started(page);
    await answer(page);
    assert.match(await page.locator(".notice").innerText(), /11\.5\sGiB/);
    await page.goto(`${url}/?v=99&s=AAAA`);
    await started(page);
    assert.match(await page.locator(".notice").innerText(), /newer/);
    assertNoFaults(page);
    await page.context().close();
  });

  it("makes a short link that opens the same plan", async () => {
    const page = await ready(browser);
    await changed(page, () => page.fill("#f-micro-batch", "3"));
    const said = await answer(page);
    await page.click("#open-share");
    await page.click("#make-short");
    await page.waitForSelector("#share-short");
    const short = await page.inputValue("#share-short");
    assert.match(short, /\/s\/[\w-]+$/);
    await page.goto(short);
    await page.waitForSelector(".verdict-text");
    assert.equal(await answer(page), said);
    assertNoFaults(page);
    await page.context().close();
  });

  it("switches unit, language and theme", async () => {
    const page = await ready(browser);
    const peak = peakOf(await answer(page));
    const decimal = await changed(page, () => page.click("#unit button >> nth=1"));
    const gb = Number(decimal.match(/([\d.]+) of [\d.]+ GB/)[1]);
    assert.ok(Math.abs(gb - peak * 1.073741824) < 0.06 * Math.max(1, peak / 10), `${gb} GB, ${peak} GiB`);
    const chinese = await changed(page, () => page.click("#language button >> nth=1"));
    assert.match(chinese, /^(装得下|装不下|难以断定) .*峰值/);
    assert.equal(await page.getAttribute("html", "lang"), "zh-CN");
    await page.click("#theme");
    assert.equal(await page.getAttribute("html", "data-theme"), "dark");
    await page.reload();
    await started(page);
    assert.match(await answer(page), /峰值.*GB/);
    assert.equal(await page.getAttribute("html", "data-theme"), "dark");
    assertNoFaults(page);
    await page.context().close();
  });

  it("saves files for other programs", async () => {
    const page = await ready(browser);
    for (const [kind, name] of [
      ["csv", /-steady\.csv$/],
      ["svg", /\.svg$/],
      ["png", /\.png$/],
      ["report", /report\.json$/],
      ["trace", /trace\.json$/],
      ["scenario", /scenario\.json$/],
    ]) {
      await page.click("#open-export");
      const [file] = await Promise.all([
        page.waitForEvent("download"),
        page.click(`#export-${kind}`),
      ]);
      assert.match(file.suggestedFilename(), name);
    }
    assertNoFaults(page);
    await page.context().close();
  });

  it("sorts, filters and pins what is alive at the cursor", async () => {
    const page = await ready(browser);
    const sizes = () => page.locator(".live tbody .size").first().getAttribute("title");
    const bytes = (text) => Number(text.replace(/\D/g, ""));
    const largest = bytes(await sizes());
    await page.click(".live th.w-size button");
    assert.ok(bytes(await sizes()) < largest);
    await page.keyboard.press("Escape");
    await page.locator(".timeline [role=application]").focus();
    await page.keyboard.press("/");
    await page.keyboard.type("no such tensor");
    await page.waitForSelector(".live ~ .empty");
    await page.fill("#tensor-filter", "embed");
    await page.locator(".live .name button").first().click();
    await page.waitForSelector(".live tr.pinned");
    assertNoFaults(page);
    await page.context().close();
  });

  it("opens every tab, by mouse and by key", async () => {
    const page = await ready(browser);
    for (const [index, tab] of ["cursor", "peak", "ranks", "time", "allocator", "why"].entries()) {
      await page.locator("#answer").focus();
      await page.keyboard.press(String(index + 1));
      assert.equal(await page.getAttribute(`#tab-${tab}`, "aria-selected"), "true");
      const rows = await page.locator("#tab-panel tbody tr").count();
      assert.ok(tab === "ranks" || rows > 0, tab);
      await shot(page, `tab-${tab}`);
    }
    await page.focus("#tab-why");
    await page.keyboard.press("ArrowRight");
    assert.equal(await page.evaluate(() => document.activeElement.id), "tab-cursor");
    await page.keyboard.press("?");
    assert.equal(await page.locator("#help[open]").count(), 1);
    await shot(page, "help");
    await page.keyboard.press("Escape");
    assertNoFaults(page);
    await page.context().close();
  });

  it("measures how long a change takes to reach the eye", async () => {
    const page = await ready(browser);
    await changed(page, () => page.fill("#f-seq-len", "1024"));
    await page.waitForFunction(
      () => performance.getEntriesByName("tidemark:input-to-frame").length > 0,
    );
    await page.context().close();
  });

  it("is accessible in both themes and languages, wide and narrow", async () => {
    for (const [name, options, act] of [
      ["light", {}, null],
      ["dark", { colorScheme: "dark" }, null],
      ["chinese", { locale: "zh-CN" }, null],
      ["narrow", { viewport: { width: 390, height: 844 } }, null],
      ["sheet", { viewport: { width: 390, height: 844 } }, (page) => page.click(".sheet-open")],
      ["narrow-dark-chinese", { viewport: { width: 390, height: 844 }, colorScheme: "dark", locale: "zh-CN" }, null],
    ]) {
      const page = await ready(browser, "/", options);
      await act?.(page);
      assert.deepEqual(await axe(page), [], name);
      assertNoFaults(page);
      await shot(page, `plan-${name}`);
      await page.context().close();
    }
  });

  it("keeps to a narrow screen, with the form as a sheet", async () => {
    const page = await ready(browser, "/", { viewport: { width: 390, height: 844 } });
    const overflow = () =>
      page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    assert.equal(await overflow(), 0);
    assert.equal(await page.isVisible("#f-seq-len"), false);
    await page.click(".sheet-open");
    assert.equal(await page.isVisible("#f-seq-len"), true);
    await changed(page, () => page.fill("#f-seq-len", "1024"));
    await changed(page, () => page.fill("#f-count", "8"));
    await changed(page, () => page.check("#f-cpu-offload"));
    assert.deepEqual(await axe(page), []);
    assert.equal(await overflow(), 0);
    await page.locator("#f-cpu-offload").scrollIntoViewIfNeeded();
    await shot(page, "fsdp2-sheet");
    await page.click(".sheet-done");
    assert.equal(await page.isVisible("#f-seq-len"), false);
    assert.equal(await overflow(), 0);
    await page.context().close();
  });

  it("prints the answer, not the controls", async () => {
    const page = await ready(browser);
    const pdf = (await page.pdf({ format: "A4", landscape: true })).toString("latin1");
    const pages = pdf.match(/\/Type\s*\/Page[^s]/g).length;
    assert.ok(pages <= 3, `${pages} pages`);
    await page.emulateMedia({ media: "print" });
    assert.equal(await page.isVisible(".topbar"), false);
    assert.equal(await page.isVisible("#inputs"), false);
    assert.equal(await page.isVisible(".verdict-text"), true);
    // The sheet that follows the pointer would cover the chart.
    const canvases = page.locator(".tl-plot canvas");
    assert.deepEqual([await canvases.nth(0).isVisible(), await canvases.nth(1).isVisible()], [true, false]);
    await shot(page, "print");
    await page.context().close();
  });

  it("says so where there is nothing", async () => {
    const page = await open(browser, "/no/such/place");
    await page.waitForSelector(".missing, body");
    await page.context().close();
    const stored = await open(browser, "/s/nosuchid");
    await stored.waitForSelector(".missing");
    assert.match(await stored.locator(".missing").innerText(), /short link/);
    await stored.context().close();
  });
});
