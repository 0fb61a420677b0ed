// The simulator's worker: takes the compiled module from the page, then serves its questions.
import init, { serve } from "/assets/app.js";

self.addEventListener(
  "message",
  async ({ data }) => {
    await init({ module_or_path: data });
    serve();
  },
  { once: true },
);
