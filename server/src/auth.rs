//! Who may store something: everybody on loopback, else whoever shows the token.

use std::net::IpAddr;

use axum::http::HeaderMap;
use axum::http::header::{AUTHORIZATION, HOST};
use axum::http::uri::Authority;
use subtle::ConstantTimeEq;

use crate::error::{ApiError, Code};
use crate::short_id::digest;

/// The rule for storing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Writes {
    /// Everybody on this machine may store: the server listens on loopback.
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
    /// 401 without the token, 403 when nobody may, or when an open server is asked by another name.
    pub fn check(&self, headers: &HeaderMap) -> Result<(), ApiError> {
        let expected = match self {
            Self::Open if is_local(headers) => return Ok(()),
            Self::Open => {
                let how = "Without --token, this server stores for `localhost` alone.";
                return Err(ApiError::new(Code::CrossOrigin).detail(how));
            }
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

/// Whether the request names this machine, if it names any. A page of another site whose name was
/// made to point here (DNS rebinding) names that site.
fn is_local(headers: &HeaderMap) -> bool {
    let Some(host) = headers.get(HOST) else { return true };
    let Ok(authority) = host.to_str().unwrap_or_default().parse::<Authority>() else {
        return false;
    };
    let name = authority.host().trim_start_matches('[').trim_end_matches(']');
    let address = name.parse::<IpAddr>();
    name.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn an_open_server_stores_for_this_machine_alone() {
        let check = |host: &'static str| {
            let headers = HeaderMap::from_iter([(HOST, HeaderValue::from_static(host))]);
            Writes::Open.check(&headers).is_ok()
        };
        for local in ["localhost", "LOCALHOST:8080", "127.0.0.1:80", "[::1]:8080", "127.9.9.9"] {
            assert!(check(local), "{local}");
        }
        for foreign in ["example.com", "localhost.example.com:80", "10.0.0.1", "[::2]", ""] {
            assert!(!check(foreign), "{foreign}");
        }
        assert!(Writes::Open.check(&HeaderMap::new()).is_ok());
    }

    #[test]
    fn a_token_and_its_hash_are_the_same() {
        let hash = format!("sha256:{}", crate::short_id::hex(&digest(b"correct horse")));
        assert_eq!(TokenHash::parse("correct horse"), TokenHash::parse(&hash));
        for bad in ["", "sha256:", "sha256:zz", &hash[..70]] {
            assert_eq!(TokenHash::parse(bad), None, "{bad}");
        }
    }
}
