//! What a node reports about itself to its operators: metrics, traces and log lines.

pub mod logs;
pub mod metrics;
pub mod otlp;
pub mod scrape;
pub mod trace;
