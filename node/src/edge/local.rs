//! A development node trusts its callers, so a browser on its machine must not send it requests of web sites. The Host
//! header reveals a site whose name resolves to this machine's address (DNS rebinding); the Origin header, which the
//! browser adds, reveals any other site. A node with API keys needs neither check: no browser adds an API key by
//! itself.

use crate::edge::answer::Failure;
use api::Problem;
use axum::http::{HeaderMap, Uri, header};
use std::net::IpAddr;

/// The host of a `host:port`, without the brackets of an IPv6 address.
pub(crate) fn host_of(authority: &str) -> &str {
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !host.ends_with(':') => host,
        _ => authority,
    };
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
}

/// Checks that a request names this machine as its host and does not come from another web site. `own`: the hosts in
/// this node's configured addresses.
///
/// # Errors
/// `invalid`, with the name of the header as the field.
pub(crate) fn check(uri: &Uri, headers: &HeaderMap, own: &[String]) -> Result<(), Failure> {
    let is_own = |host: &str| {
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        host == "localhost"
            || host.ends_with(".localhost")
            || host.parse::<IpAddr>().is_ok_and(|ip| ip.to_canonical().is_loopback())
            || own.iter().any(|own| own.eq_ignore_ascii_case(&host))
    };
    let refused = |field: &str| {
        let why = "must be localhost, a loopback address or an address that this node was configured with: \
                   a development node does not authenticate callers, so it rejects requests of web sites";
        Err(Problem::invalid(field, why).into())
    };
    // HTTP/2 sends the authority instead of the Host header.
    let named = uri.authority().map(|authority| Some(authority.as_str()));
    let named = named.into_iter().chain(headers.get_all(header::HOST).iter().map(|host| host.to_str().ok()));
    if named.into_iter().any(|host| !host.is_some_and(|host| is_own(host_of(host)))) {
        return refused("Host");
    }
    let is_own_origin = |origin: &str| {
        let authority = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
        authority.is_some_and(|authority| is_own(host_of(authority)))
    };
    if headers.get_all(header::ORIGIN).iter().any(|origin| !origin.to_str().is_ok_and(is_own_origin)) {
        return refused("Origin");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(uri: &str, headers: &[(&str, &str)]) -> Option<String> {
        let pairs = headers.iter().map(|(name, value)| {
            (axum::http::HeaderName::from_bytes(name.as_bytes()).unwrap(), value.parse().unwrap())
        });
        let own = ["tenure.example".to_owned()];
        check(&uri.parse().unwrap(), &pairs.collect(), &own).err().and_then(|Failure(problem)| problem.field)
    }

    #[test]
    fn only_hosts_of_this_machine_are_accepted() {
        let fine = [
            "localhost",
            "localhost:7400",
            "LOCALHOST.:7400",
            "app.localhost:1",
            "127.0.0.1:7400",
            "127.9.9.9",
            "[::1]:7400",
            "[::1]",
            "tenure.example:7400",
        ];
        for host in fine {
            assert_eq!(refused("/v1/items", &[("host", host)]), None, "{host}");
            assert_eq!(refused("/v1/items", &[("host", host), ("origin", &format!("http://{host}"))]), None, "{host}");
        }
        let strange = [
            "attacker.example",
            "attacker.example:7400",
            "localhost.attacker.example",
            "127.0.0.1.attacker.example",
            "10.0.0.1",
            "",
            "[::1",
            "localhost@attacker.example",
        ];
        for host in strange {
            assert_eq!(refused("/v1/items", &[("host", host)]).as_deref(), Some("Host"), "{host}");
            let origin = format!("https://{host}");
            let headers = [("host", "localhost"), ("origin", origin.as_str())];
            assert_eq!(refused("/v1/items", &headers).as_deref(), Some("Origin"), "{host}");
        }
        let of = |origin| refused("/", &[("host", "localhost"), ("origin", origin)]);
        assert_eq!([of("null"), of("file://"), of("localhost")].map(|field| field.unwrap()), ["Origin"; 3]);
        assert_eq!(refused("http://attacker.example/", &[]).as_deref(), Some("Host"), "of HTTP/2");
        assert_eq!(refused("/", &[]), None, "no browser");
        let two = [("host", "localhost"), ("host", "attacker.example")];
        let pairs = two.map(|(_, value)| value.parse().unwrap());
        let mut headers = HeaderMap::new();
        for value in pairs {
            headers.append(header::HOST, value);
        }
        assert!(check(&"/".parse().unwrap(), &headers, &[]).is_err());
    }
}
