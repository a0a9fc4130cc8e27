//! The addresses of nodes. Any node serves any call; the node that served last is asked first.

use crate::Error;
use hyper::Uri;
use hyper::http::uri::{Authority, PathAndQuery, Scheme};
use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The address of one node: `http://host:port` or `https://host:port`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    scheme: Scheme,
    authority: Authority,
}

impl Endpoint {
    #[must_use]
    pub fn is_tls(&self) -> bool {
        self.scheme == Scheme::HTTPS
    }

    /// Without the brackets of an IPv6 address.
    pub(crate) fn host(&self) -> &str {
        self.authority.host().trim_start_matches('[').trim_end_matches(']')
    }

    pub(crate) fn port(&self) -> u16 {
        self.authority.port_u16().unwrap_or(if self.is_tls() { 443 } else { 80 })
    }

    pub(crate) fn uri(&self, path: &str) -> Result<Uri, Error> {
        let path = PathAndQuery::from_str(path).map_err(|error| Error::Invalid(format!("{path}: {error}")))?;
        let uri = Uri::builder().scheme(self.scheme.clone()).authority(self.authority.clone()).path_and_query(path);
        uri.build().map_err(|error| Error::Invalid(format!("{self}: {error}")))
    }

    pub(crate) fn of(uri: &Uri) -> Option<Self> {
        Some(Self { scheme: uri.scheme()?.clone(), authority: uri.authority()?.clone() })
    }
}

impl FromStr for Endpoint {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let invalid = |why: &str| Error::Invalid(format!("{text} is not a node address: {why}"));
        let uri: Uri = text.parse().map_err(|_| invalid("use http://host:port or https://host:port"))?;
        let endpoint = Self::of(&uri).ok_or_else(|| invalid("use http://host:port or https://host:port"))?;
        if endpoint.scheme != Scheme::HTTP && endpoint.scheme != Scheme::HTTPS {
            return Err(invalid("only http and https are supported"));
        }
        if uri.path() != "/" || uri.query().is_some() {
            return Err(invalid("it must not have a path or a query"));
        }
        if endpoint.authority.as_str().contains('@') {
            return Err(invalid("it must not contain a credential"));
        }
        Ok(endpoint)
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme, self.authority)
    }
}

/// All known endpoints, in the order in which they were given.
#[derive(Debug)]
pub(crate) struct Endpoints {
    all: Vec<Endpoint>,
    current: AtomicUsize,
}

impl Endpoints {
    pub(crate) fn new(all: Vec<Endpoint>) -> Result<Self, Error> {
        if all.is_empty() {
            return Err(Error::Invalid("no node address is given".into()));
        }
        Ok(Self { all, current: AtomicUsize::new(0) })
    }

    pub(crate) fn all(&self) -> &[Endpoint] {
        &self.all
    }

    /// The endpoint to ask, and its index.
    pub(crate) fn current(&self) -> (usize, &Endpoint) {
        let at = self.current.load(Ordering::Relaxed) % self.all.len();
        (at, &self.all[at])
    }

    /// Moves on from an endpoint that did not serve. If many callers fail at once, only one of them moves on.
    pub(crate) fn leave(&self, at: usize) {
        let next = (at + 1) % self.all.len();
        let _ = self.current.compare_exchange(at, next, Ordering::Relaxed, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_scheme_a_host_and_a_port() {
        let endpoint: Endpoint = "https://[::1]:7400".parse().unwrap();
        assert_eq!((endpoint.host(), endpoint.port(), endpoint.is_tls()), ("::1", 7400, true));
        assert_eq!("http://node-1".parse::<Endpoint>().unwrap().port(), 80);
        for wrong in ["", "node-1:7400", "ftp://node-1", "http://node-1/v1", "http://node-1?a=b", "http://u:p@node-1"] {
            assert!(matches!(wrong.parse::<Endpoint>(), Err(Error::Invalid(_))), "{wrong}");
        }
    }

    #[test]
    fn concurrent_failures_advance_the_endpoint_once() {
        let all = ["http://a", "http://b", "http://c"].map(|text| text.parse().unwrap());
        let endpoints = Endpoints::new(all.to_vec()).unwrap();
        endpoints.leave(0);
        endpoints.leave(0);
        assert_eq!(endpoints.current().0, 1);
        endpoints.leave(1);
        endpoints.leave(2);
        assert_eq!(endpoints.current().0, 0);
    }
}
