//! Short ids that follow from content: the first characters of its SHA-256 in base32.
//!
//! The alphabet is Crockford's, in lower case: no `i`, `l`, `o`, `u`, so an id can be read aloud and
//! spells nothing. Ten characters are 50 bits; whoever stores under them handles the rare clash by
//! taking one character more.

use sha2::{Digest, Sha256};

const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
/// Characters of an id that clashes with no other.
pub const SHORTEST: usize = 10;
/// Characters of a whole digest.
const WHOLE: usize = 52;

/// SHA-256 of these bytes.
pub fn digest(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// The digest in hex.
pub fn hex(digest: &[u8; 32]) -> String {
    digest.iter().fold(String::with_capacity(64), |mut text, byte| {
        for nibble in [byte >> 4, byte & 15] {
            text.push(char::from_digit(u32::from(nibble), 16).unwrap_or('0'));
        }
        text
    })
}

/// The ids that this digest may have, shortest first.
pub fn candidates(digest: &[u8; 32]) -> impl Iterator<Item = String> {
    let whole: String = (0..WHOLE).map(|at| char::from(symbol(digest, at * 5))).collect();
    (SHORTEST..=WHOLE).map(move |length| whole[..length].to_owned())
}

/// The five bits from this one on; zeros follow the digest.
fn symbol(digest: &[u8; 32], bit: usize) -> u8 {
    let byte = |at: usize| u16::from(digest.get(at).copied().unwrap_or(0));
    let pair = byte(bit / 8) << 8 | byte(bit / 8 + 1);
    ALPHABET[usize::from(pair >> (11 - bit % 8) & 31)]
}

/// Whether this can be an id at all.
pub fn is_well_formed(id: &str) -> bool {
    (SHORTEST..=WHOLE).contains(&id.len()) && id.bytes().all(|byte| ALPHABET.contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_taken_from_the_left() {
        let mut digest = [0; 32];
        digest[..5].copy_from_slice(&[
            0b0000_1000,
            0b1000_0110,
            0b0100_0010,
            0b1001_1000,
            0b1110_1000,
        ]);
        // 00001 00010 00011 00100 00101 00110 00111 01000
        assert_eq!(candidates(&digest).next().unwrap(), "1234567800");
        assert_eq!(candidates(&digest).last().unwrap().len(), WHOLE);
        assert_eq!(candidates(&[255; 32]).next().unwrap(), "zzzzzzzzzz");
    }

    #[test]
    fn known_digest() {
        assert_eq!(
            hex(&digest(b"abc")),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }

    #[test]
    fn only_ids_are_well_formed() {
        for (id, expected) in [
            ("0123456789", true),
            ("012345678", false),
            ("0123456789/", false),
            ("012345678I", false),
        ] {
            assert_eq!(is_well_formed(id), expected, "{id}");
        }
    }
}
