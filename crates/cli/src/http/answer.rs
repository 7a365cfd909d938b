//! Which answer a request gets.

use crate::http::site::Site;
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::http::uri::Authority;
use hyper::{Method, Request, Response, StatusCode, Version};
use std::net::IpAddr;

/// What every answer says: it is kept nowhere, is what it says it is, and is nothing for the pages
/// of others.
const ALWAYS: [(HeaderName, &str); 5] = [
    (header::CACHE_CONTROL, "no-store"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// What an answer that is no page may load: nothing.
const NO_POLICY: &str = "default-src 'none'; frame-ancestors 'none'";

/// The kinds of content.
const HTML: &str = "text/html; charset=utf-8";
const JSON: &str = "application/json";
const PLAIN: &str = "text/plain; charset=utf-8";
const METRICS: &str = "text/plain; version=0.0.4";

/// Answers a request.
pub(super) fn answer<B: hyper::body::Body>(site: &Site, request: &Request<B>) -> Response<String> {
    if let Err((status, why)) = check(request, site.is_loopback) {
        return refusal(status, why);
    }
    let is_wanted = matches!(*request.method(), Method::GET | Method::HEAD);
    match request.uri().path() {
        "/" | "/metrics" | "/status.json" if !is_wanted => {
            let mut refusal = refusal(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD");
            let allowed = HeaderValue::from_static("GET, HEAD");
            refusal.headers_mut().insert(header::ALLOW, allowed);
            refusal
        }
        "/" => {
            let mut page = response(StatusCode::OK, HTML, site.page.html.clone());
            page.headers_mut()
                .insert(header::CONTENT_SECURITY_POLICY, site.page.policy.clone());
            page
        }
        "/metrics" => response(StatusCode::OK, METRICS, site.metrics()),
        "/status.json" => response(StatusCode::OK, JSON, site.status()),
        _ => refusal(
            StatusCode::NOT_FOUND,
            "there are the page at /, and the figures at /status.json and /metrics",
        ),
    }
}

/// Whether a request may have an answer; if not, why.
fn check<B: hyper::body::Body>(request: &Request<B>, is_loopback: bool) -> Result<(), (StatusCode, &'static str)> {
    if !request.body().is_end_stream() {
        return Err((StatusCode::PAYLOAD_TOO_LARGE, "a request has no body here"));
    }
    let mut hosts = request.headers().get_all(header::HOST).iter();
    let named = match (hosts.next(), hosts.next()) {
        (None, _) if request.version() < Version::HTTP_11 => None,
        (Some(host), None) => Some(host),
        _ => return Err((StatusCode::BAD_REQUEST, "one line must name the host")),
    };
    // A page of somebody else reaches this machine by a name of its own; the browser tells which.
    let is_own = |host: &[u8]| Authority::try_from(host).is_ok_and(|host| is_this_machine(host.host()));
    let is_own_line = named.is_none_or(|host| is_own(host.as_bytes()));
    let is_own_target = request.uri().host().is_none_or(is_this_machine);
    if is_loopback && !(is_own_line && is_own_target) {
        return Err((
            StatusCode::FORBIDDEN,
            "this address answers to localhost, 127.0.0.1 and [::1] alone",
        ));
    }
    Ok(())
}

/// Whether a host is this machine, under a name that nobody else gives it.
fn is_this_machine(host: &str) -> bool {
    let literal = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost") || literal.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// An answer that says why there is no other. It ends the connection: what follows such a request
/// is not worth reading.
fn refusal(status: StatusCode, why: &'static str) -> Response<String> {
    let mut refusal = response(status, PLAIN, format!("{why}\n"));
    let close = HeaderValue::from_static("close");
    refusal.headers_mut().insert(header::CONNECTION, close);
    refusal
}

fn response(status: StatusCode, kind: &'static str, body: String) -> Response<String> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    for (name, value) in ALWAYS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(NO_POLICY));
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_of_this_machine() {
        for host in ["localhost", "LOCALHOST", "127.0.0.1", "127.1.2.3", "[::1]"] {
            assert!(is_this_machine(host), "{host}");
        }
        for host in [
            "",
            "localhost.evil.example",
            "10.0.0.1",
            "evil.example",
            "[::2]",
            "0.0.0.0",
            "127.0.0.1.evil.example",
        ] {
            assert!(!is_this_machine(host), "{host}");
        }
    }

    fn status_of(hosts: &[&str], target: &str, version: Version, is_loopback: bool) -> u16 {
        let mut request = Request::builder().uri(target).version(version);
        for host in hosts {
            request = request.header(header::HOST, *host);
        }
        let request = request.body(String::new()).unwrap();
        check(&request, is_loopback)
            .err()
            .map_or(200, |(status, _)| status.as_u16())
    }

    #[test]
    fn a_name_of_somebody_else_is_refused() {
        let new = Version::HTTP_11;
        assert_eq!(status_of(&["localhost:9332"], "/", new, true), 200);
        assert_eq!(status_of(&["[::1]:9332"], "/", new, true), 200);
        assert_eq!(status_of(&["127.0.0.1"], "/", new, true), 200);
        assert_eq!(status_of(&["evil.example:9332"], "/", new, true), 403);
        assert_eq!(status_of(&["evil.example:9332"], "/", new, false), 200);
        assert_eq!(status_of(&["localhost@evil.example"], "/", new, true), 403);
        assert_eq!(status_of(&["no host"], "/", new, true), 403);
        assert_eq!(status_of(&[""], "/", new, true), 403);
        assert_eq!(status_of(&["localhost"], "http://evil.example/", new, true), 403);
        assert_eq!(status_of(&["localhost", "localhost"], "/", new, true), 400);
        assert_eq!(status_of(&[], "/", new, true), 400);
        assert_eq!(status_of(&[], "/", Version::HTTP_10, true), 200);
    }
}
