//! Who may store something: everybody on loopback, else whoever shows the token.

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use subtle::ConstantTimeEq;

use crate::error::{ApiError, Code};
use crate::short_id::digest;

/// The rule for storing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Writes {
    /// Everybody may store.
    Open,
    /// The bearer of this token may; only its SHA-256 is kept.
    Token(TokenHash),
    /// Nobody may.
    Closed,
}

/// SHA-256 of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenHash([u8; 32]);

impl TokenHash {
    /// From a token, or from `sha256:` and the hash in hex. An empty token is none.
    pub fn parse(text: &str) -> Option<Self> {
        let Some(hex) = text.strip_prefix("sha256:") else {
            return (!text.is_empty()).then(|| Self(digest(text.as_bytes())));
        };
        let mut bytes = [0; 32];
        if hex.len() != 64 || !hex.is_ascii() {
            return None;
        }
        for (index, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(hex.get(2 * index..2 * index + 2)?, 16).ok()?;
        }
        Some(Self(bytes))
    }
}

impl Writes {
    /// `Ok` when the bearer of these headers may store something.
    ///
    /// # Errors
    ///
    /// 401 without the token, 403 when nobody may.
    pub fn check(&self, headers: &HeaderMap) -> Result<(), ApiError> {
        let expected = match self {
            Self::Open => return Ok(()),
            Self::Closed => {
                let how = "Start it with --token, or on a loopback address.";
                return Err(ApiError::new(Code::WritesClosed).detail(how));
            }
            Self::Token(hash) => hash,
        };
        let Some(token) = bearer(headers) else {
            return Err(ApiError::unauthorized("Send `Authorization: Bearer <token>`."));
        };
        // Hashes are compared, and in constant time: the time tells nothing about the token.
        let same = digest(token.as_bytes()).ct_eq(&expected.0);
        if bool::from(same) { Ok(()) } else { Err(ApiError::unauthorized("The token is wrong.")) }
    }
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_and_its_hash_are_the_same() {
        let hash = format!("sha256:{}", crate::short_id::hex(&digest(b"correct horse")));
        assert_eq!(TokenHash::parse("correct horse"), TokenHash::parse(&hash));
        for bad in ["", "sha256:", "sha256:zz", &hash[..70]] {
            assert_eq!(TokenHash::parse(bad), None, "{bad}");
        }
    }
}
