// Sets the stored or preferred theme before the first paint. The app takes over from here.
(() => {
  let stored = null;
  try {
    stored = localStorage.getItem("tidemark:theme");
  } catch {
    // Storage may be forbidden; the system's preference decides then.
  }
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme =
    stored === "dark" || stored === "light" ? stored : dark ? "dark" : "light";
})();
