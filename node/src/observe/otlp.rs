//! Exports spans to a collector by OTLP over HTTP, if configured.
//!
//! It never delays a request: spans go into a bounded queue, a separate thread sends them, and spans that an
//! unavailable collector does not accept are dropped.

mod collector;
mod exporter;
mod message;
mod spans;

pub use exporter::Exporter;
pub use spans::Spans;

/// The path for traces in OTLP/HTTP.
const TRACES: &str = "/v1/traces";
const PORT: u16 = 4318;

/// The collector that gets the spans.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    pub host: String,
    pub port: u16,
    pub path: String,
}

impl Endpoint {
    /// Parses a collector's base URL such as `http://127.0.0.1:4318`, or the full URL for its traces.
    ///
    /// # Errors
    /// When the URL is invalid; the message is for the operator.
    pub fn parse(url: &str) -> Result<Self, String> {
        if url.starts_with("https://") {
            return Err(
                "https is not supported for collectors: run a collector on this machine, give its http URL, and let it \
                        forward the spans over TLS"
                    .into(),
            );
        }
        let rest = url.strip_prefix("http://").ok_or_else(|| format!("{url:?} does not begin with http://"))?;
        let (authority, path) = rest.split_once('/').map_or((rest, ""), |(authority, path)| (authority, path));
        let is_plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
        if authority.contains('@') || !is_plain(rest) || path.contains(['?', '#']) {
            return Err(format!("{url:?} is invalid; write http://host:port/path"));
        }
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => {
                (host, port.parse().map_err(|_| format!("{url:?}: {port:?} is not a port number"))?)
            }
            _ => (authority, PORT),
        };
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        if host.is_empty() {
            return Err(format!("{url:?} has no host"));
        }
        let base = path.trim_end_matches('/');
        let path = match base {
            "" => TRACES.to_owned(),
            _ if format!("/{base}").ends_with(TRACES) => format!("/{base}"),
            _ => format!("/{base}{TRACES}"),
        };
        Ok(Self { host: host.to_owned(), port, path })
    }

    /// Host and port as in the host header.
    #[must_use]
    pub fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_a_collectors_base_url_or_the_url_for_its_traces() {
        let read = |url: &str| Endpoint::parse(url).map(|endpoint| endpoint.authority() + &endpoint.path);
        assert_eq!(read("http://127.0.0.1").unwrap(), "127.0.0.1:4318/v1/traces");
        assert_eq!(read("http://otel:9/").unwrap(), "otel:9/v1/traces");
        assert_eq!(read("http://[::1]:9/v1/traces").unwrap(), "[::1]:9/v1/traces");
        assert_eq!(read("http://[::1]").unwrap(), "[::1]:4318/v1/traces");
        assert_eq!(read("http://otel/tenant/a").unwrap(), "otel:4318/tenant/a/v1/traces");
        for (wrong, why) in [
            ("https://otel", "https is not supported"),
            ("otel:4318", "does not begin with http://"),
            ("http://", "has no host"),
            ("http://otel:many", "not a port number"),
            ("http://me:secret@otel", "is invalid"),
            ("http://otel/a b", "is invalid"),
            ("http://otel/?a", "is invalid"),
        ] {
            assert!(read(wrong).unwrap_err().contains(why), "{wrong}: {:?}", read(wrong));
        }
    }
}
