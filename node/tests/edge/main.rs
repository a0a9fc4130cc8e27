//! The edge as its callers meet it: three real processes, HTTP, API keys. Every response is checked against the OpenAPI
//! document that the nodes serve.

mod connections;
mod contract;
mod http;
mod people;

mod backup;
mod disclosure;
mod document;
mod every_call;
mod failing;
mod failover;
mod form;
mod hidden;
mod hostile;
mod interregnum;
mod low_disk;
mod metrics;
mod overload;
mod reading;
mod refusals;
mod regressions;
mod rights;
mod roles;
mod scopes;
mod shares;
mod streams;
mod tls;
mod unread;
mod view_storm;
mod waiting;
