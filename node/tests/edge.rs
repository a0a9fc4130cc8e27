//! The edge as its callers meet it: three real processes, HTTP, API keys. Every response is checked against the OpenAPI
//! document that the nodes serve.

#[path = "../../raft-store/tests/support/fleet.rs"]
mod fleet;

#[path = "peers/certificates.rs"]
#[allow(dead_code, reason = "each test binary uses its part")]
mod certificates;
#[path = "processes/client.rs"]
#[allow(dead_code, reason = "each test binary uses its part")]
mod client;
#[path = "processes/world.rs"]
#[allow(dead_code, reason = "each test binary uses its part")]
mod world;

#[path = "edge/connections.rs"]
mod connections;
#[path = "edge/contract.rs"]
mod contract;
#[path = "edge/http.rs"]
mod http;
#[path = "edge/people.rs"]
mod people;

#[path = "edge/backup.rs"]
mod backup;
#[path = "edge/disclosure.rs"]
mod disclosure;
#[path = "edge/document.rs"]
mod document;
#[path = "edge/every_call.rs"]
mod every_call;
#[path = "edge/failing.rs"]
mod failing;
#[path = "edge/failover.rs"]
mod failover;
#[path = "edge/form.rs"]
mod form;
#[path = "edge/hidden.rs"]
mod hidden;
#[path = "edge/hostile.rs"]
mod hostile;
#[path = "edge/interregnum.rs"]
mod interregnum;
#[path = "edge/low_disk.rs"]
mod low_disk;
#[path = "edge/metrics.rs"]
mod metrics;
#[path = "edge/overload.rs"]
mod overload;
#[path = "edge/reading.rs"]
mod reading;
#[path = "edge/refusals.rs"]
mod refusals;
#[path = "edge/regressions.rs"]
mod regressions;
#[path = "edge/rights.rs"]
mod rights;
#[path = "edge/roles.rs"]
mod roles;
#[path = "edge/scopes.rs"]
mod scopes;
#[path = "edge/shares.rs"]
mod shares;
#[path = "edge/streams.rs"]
mod streams;
#[path = "edge/tls.rs"]
mod tls;
#[path = "edge/unread.rs"]
mod unread;
#[path = "edge/view_storm.rs"]
mod view_storm;
#[path = "edge/waiting.rs"]
mod waiting;
