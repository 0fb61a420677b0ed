//! A corpus of generated scenarios and a digest of everything the simulator says about each.
//!
//! Compiled twice: the binary prints the native digests, the WebAssembly module exports the same
//! function to Node, and `parity.test.mjs` compares. The digest is over the JSON of report and
//! timelines, where every float is written so that it reads back to the same bits.

mod corpus;
#[cfg(target_arch = "wasm32")]
mod exports;

use std::io::{self, Write};

use simulator::catalog::Catalog;
use simulator::scenario::check;
use simulator::simulate;

pub use corpus::{N_SCENARIOS, scenario};

/// The digest of scenario `index`, and whether it could be simulated: faults are digested too.
///
/// # Panics
/// When an answer cannot be written as JSON, which would be a bug of ours.
pub fn digest(index: u32, catalog: &Catalog) -> (u64, bool) {
    let document = scenario(index, catalog);
    let mut hash = Fnv::default();
    let valid = check(&document, catalog);
    match &valid {
        Ok(scenario) => {
            let answer = simulate(scenario);
            serde_json::to_writer(&mut hash, &(answer.report, answer.first, answer.steady))
                .expect("answers are JSON: their maps have text for keys");
        }
        Err(faults) => write!(hash, "{faults:?}").expect("a hash takes every byte"),
    }
    (hash.0, valid.is_ok())
}

/// FNV-1a with 64 bits. <http://www.isthe.com/chongo/tech/comp/fnv/>, as of 2026.
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Write for Fnv {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::io::Write as _;

    use super::{Catalog, Fnv, N_SCENARIOS, digest};

    #[test]
    fn hash_is_the_published_one() {
        let mut hash = Fnv::default();
        hash.write_all(b"foobar").unwrap();
        assert_eq!(hash.0, 0x8594_4171_f739_67e8);
    }

    #[test]
    fn most_of_the_corpus_can_be_simulated_and_no_two_answers_are_alike() {
        let catalog = Catalog::builtin();
        let mut digests = Vec::new();
        let mut panics = Vec::new();
        for index in 0..N_SCENARIOS {
            match std::panic::catch_unwind(|| digest(index, &catalog)) {
                Ok(digest) => digests.push(digest),
                Err(_) => panics.push(index),
            }
        }
        assert!(panics.is_empty(), "these scenarios panic: {panics:?}");
        let valid: Vec<u64> =
            digests.iter().filter_map(|(digest, valid)| valid.then_some(*digest)).collect();
        assert!(valid.len() >= 180, "{} of {N_SCENARIOS}", valid.len());
        let distinct: BTreeSet<u64> = valid.iter().copied().collect();
        assert_eq!(distinct.len(), valid.len());
    }
}
