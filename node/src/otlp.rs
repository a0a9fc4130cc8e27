//! Spans to a collector, by OTLP over HTTP, for those who ask for it.
//!
//! It never keeps a request waiting: spans go into a queue with a bound, a thread of its own sends them, and what a
//! collector that is away does not take is dropped.

mod collector;
mod exporter;
mod message;
mod spans;

pub use exporter::Exporter;
pub use spans::Spans;

/// Where OTLP/HTTP has its spans.
const TRACES: &str = "/v1/traces";
const PORT: u16 = 4318;

/// Where the spans go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    pub host: String,
    pub port: u16,
    pub path: String,
}

impl Endpoint {
    /// A collector's base, say `http://127.0.0.1:4318`, or the whole address of its traces.
    ///
    /// # Errors
    /// With words for who gave it.
    pub fn parse(url: &str) -> Result<Self, String> {
        if url.starts_with("https://") {
            return Err(
                "https is not spoken to collectors: run one on this machine, give its http address, and let it \
                        speak TLS to where the spans are kept"
                    .into(),
            );
        }
        let rest = url.strip_prefix("http://").ok_or_else(|| format!("{url:?} does not begin with http://"))?;
        let (authority, path) = rest.split_once('/').map_or((rest, ""), |(authority, path)| (authority, path));
        let is_plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
        if authority.contains('@') || !is_plain(rest) || path.contains(['?', '#']) {
            return Err(format!("{url:?} is more than http://host:port/path"));
        }
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => {
                (host, port.parse().map_err(|_| format!("{url:?}: {port:?} is no port"))?)
            }
            _ => (authority, PORT),
        };
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        if host.is_empty() {
            return Err(format!("{url:?} names no host"));
        }
        let base = path.trim_end_matches('/');
        let path = match base {
            "" => TRACES.to_owned(),
            _ if format!("/{base}").ends_with(TRACES) => format!("/{base}"),
            _ => format!("/{base}{TRACES}"),
        };
        Ok(Self { host: host.to_owned(), port, path })
    }

    /// As the host header has it.
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
    fn an_endpoint_is_a_collectors_base_or_the_address_of_its_traces() {
        let read = |url: &str| Endpoint::parse(url).map(|endpoint| endpoint.authority() + &endpoint.path);
        assert_eq!(read("http://127.0.0.1").unwrap(), "127.0.0.1:4318/v1/traces");
        assert_eq!(read("http://otel:9/").unwrap(), "otel:9/v1/traces");
        assert_eq!(read("http://[::1]:9/v1/traces").unwrap(), "[::1]:9/v1/traces");
        assert_eq!(read("http://[::1]").unwrap(), "[::1]:4318/v1/traces");
        assert_eq!(read("http://otel/tenant/a").unwrap(), "otel:4318/tenant/a/v1/traces");
        for (wrong, why) in [
            ("https://otel", "https is not spoken"),
            ("otel:4318", "does not begin with http://"),
            ("http://", "names no host"),
            ("http://otel:many", "no port"),
            ("http://me:secret@otel", "more than"),
            ("http://otel/a b", "more than"),
            ("http://otel/?a", "more than"),
        ] {
            assert!(read(wrong).unwrap_err().contains(why), "{wrong}: {:?}", read(wrong));
        }
    }
}
