// Starts the app: one compilation of the module serves the page and its worker.
import init, { start } from "/assets/app.js";

const WASM = "/assets/app_bg.wasm";
const WORKER = "/assets/worker.js";

const crash = (text) => {
  document.getElementById("crash-text").textContent = text;
  document.getElementById("crash").hidden = false;
};
document.getElementById("crash-reload").addEventListener("click", () => location.reload());
// A trap carries an error object; notices of the browser itself do not.
addEventListener("error", (event) => event.error && crash(event.message));
addEventListener("unhandledrejection", (event) => crash(String(event.reason)));

// The first worker loads its script while the module still compiles.
let spare = new Worker(WORKER, { type: "module" });

const module = await WebAssembly.compileStreaming(fetch(WASM, { credentials: "same-origin" }));

/** A fresh worker that is handed the compiled module. */
const spawn = () => {
  const worker = spare ?? new Worker(WORKER, { type: "module" });
  spare = null;
  worker.postMessage(module);
  return worker;
};

await init({ module_or_path: module });
start(spawn);
