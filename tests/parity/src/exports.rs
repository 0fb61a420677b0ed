//! What the WebAssembly module offers to Node. Numbers only, so no glue is needed.

#![expect(unsafe_code, reason = "an exported name must not be mangled")]

use simulator::catalog::Catalog;

// SAFETY: no other function of the module has this name.
#[unsafe(no_mangle)]
extern "C" fn n_scenarios() -> u32 {
    crate::N_SCENARIOS
}

// SAFETY: no other function of the module has this name.
#[unsafe(no_mangle)]
extern "C" fn digest(index: u32) -> u64 {
    crate::digest(index, &Catalog::builtin()).0
}
