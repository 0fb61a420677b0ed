// The same scenarios natively and as WebAssembly: equal digests, and a module that asks for nothing.
//
// PARITY_WASM is the module, PARITY_NATIVE the binary; `cargo xtask test --only parity` builds both.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";

const module = new WebAssembly.Module(readFileSync(process.env.PARITY_WASM));
const native = execFileSync(process.env.PARITY_NATIVE, { encoding: "utf8" }).trim().split("\n");

describe("parity", () => {
  it("imports nothing: no clock, no files, no randomness", () => {
    assert.deepEqual(WebAssembly.Module.imports(module), []);
  });

  it("gives the bits of the native simulator on every scenario", () => {
    const { exports } = new WebAssembly.Instance(module, {});
    assert.equal(exports.n_scenarios(), native.length);
    assert.ok(native.length >= 200);
    const web = native.map((_, index) => {
      try {
        return BigInt.asUintN(64, exports.digest(index)).toString(16).padStart(16, "0");
      } catch (error) {
        return `${error}`;
      }
    });
    const different = native.flatMap((digest, i) => (web[i] === digest ? [] : [`${i}: ${web[i]}`]));
    // Which scenario that is: target/release/parity NUMBER.
    assert.deepEqual(different, []);
  });
});
