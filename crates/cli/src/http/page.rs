//! The page: one answer with all that it needs. A browser runs this script and takes this style,
//! which their hashes name, and nothing else.

use blockmill_block::hash::sha256;
use hyper::header::HeaderValue;

/// The parts of the page.
const FRAME: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// Where the style and the script go.
const STYLE_HERE: &str = "/* style */";
const SCRIPT_HERE: &str = "/* script */";

/// The page, and what a browser may load for it.
pub(super) struct Page {
    pub(super) html: String,
    pub(super) policy: HeaderValue,
}

impl Page {
    pub(super) fn new() -> Self {
        let html = FRAME.replace(STYLE_HERE, STYLE).replace(SCRIPT_HERE, SCRIPT);
        let [style, script] = [STYLE, SCRIPT].map(|text| base64(&sha256(text.as_bytes())));
        let policy = format!(
            "default-src 'none'; style-src 'sha256-{style}'; script-src 'sha256-{script}'; connect-src 'self'; \
             img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        );
        Self {
            html,
            // It has no character that a header may not have.
            policy: HeaderValue::try_from(policy).unwrap_or(HeaderValue::from_static("default-src 'none'")),
        }
    }
}

/// Base64, as in the names of hashes.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for part in bytes.chunks(3) {
        let bits = (0..3).fold(0, |bits, at| bits << 8 | u32::from(part.get(at).copied().unwrap_or(0)));
        for digit in 0..4 {
            match digit <= part.len() {
                true => text.push(char::from(DIGITS[(bits >> (18 - 6 * digit) & 63) as usize])),
                false => text.push('='),
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_of_any_length() {
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
        ] {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
    }

    /// The hash is that of what stands between the tags, and nothing in it ends the page early.
    #[test]
    fn style_and_script_are_in_the_page_as_they_are() {
        let page = Page::new();
        let html = page.html;
        for (tag, text) in [("style", STYLE), ("script", SCRIPT)] {
            let (_, rest) = html.split_once(&format!("<{tag}>")).unwrap();
            let (inner, _) = rest.split_once(&format!("</{tag}>")).unwrap();
            assert_eq!(inner, text);
            assert!(!text.contains(&format!("</{tag}")) && !text.contains('\r'));
            let hash = base64(&sha256(text.as_bytes()));
            assert!(page.policy.to_str().unwrap().contains(&hash));
        }
        assert!(!html.contains("http://") && !html.contains("https://") && html.is_ascii());
    }
}
