//! The page's files, embedded by `build.rs`: a sorted table and its lookup, nothing of HTTP.

/// One file of the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asset {
    /// As the browser asks for it: `/index.html`, `/assets/app.0123456789abcdef.js`.
    pub path: &'static str,
    pub content_type: &'static str,
    /// SHA-256 of the identity bytes, in the quotes that the `ETag` header wants.
    pub etag: &'static str,
    /// The name carries the hash of the content, so a browser may keep the file for ever.
    pub immutable: bool,
    pub identity: &'static [u8],
    /// The same content as brotli, where that is smaller.
    pub brotli: Option<&'static [u8]>,
}

/// Sorted by path; empty when the binary was built without a bundle.
static ASSETS: &[Asset] = include!(concat!(env!("OUT_DIR"), "/bundle_table.rs"));

/// Every file of the page, sorted by path.
pub fn assets() -> &'static [Asset] {
    ASSETS
}

/// The file of exactly this path.
pub fn find(path: &str) -> Option<&'static Asset> {
    let at = ASSETS.binary_search_by(|asset| asset.path.cmp(path)).ok()?;
    ASSETS.get(at)
}

/// The page itself; `None` when the binary was built without a bundle.
pub fn index() -> Option<&'static Asset> {
    find("/index.html")
}

#[cfg(test)]
mod tests {
    use super::{assets, find};

    #[test]
    fn every_asset_is_found_by_its_path() {
        for asset in assets() {
            assert_eq!(find(asset.path), Some(asset));
            assert!(asset.etag.len() == 66, "{}", asset.etag);
            assert!(asset.brotli.is_none_or(|b| b.len() < asset.identity.len()), "{}", asset.path);
        }
        assert!(assets().is_sorted_by(|a, b| a.path < b.path));
        assert_eq!(find("/assets/no-such-file.js"), None);
    }
}
