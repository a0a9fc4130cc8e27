//! A node that waits for a backup. It has no data yet and serves only the restore call.

use crate::admin::restore;
use crate::edge::answer::{self, Failure, Reply, finished};
use crate::edge::extract::{Query, identify};
use crate::edge::identity::{Authenticator, ClusterRight, check_cluster_right};
use crate::edge::local;
use crate::edge::server::EdgeServer;
use crate::edge::settings::EdgeSettings;
use crate::net::certificates;
use crate::observe::metrics::Metrics;
use crate::observe::trace;
use api::cluster::Restored;
use api::query::RestoreQuery;
use api::{Code, Problem};
use axum::extract::{FromRequestParts as _, Request, State};
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use lease::numbers::Token;
use raft_store::restore::{RestoreError, Target};
use serde_json::json;
use std::future::pending;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::{Mutex, watch};
use tracing::Instrument as _;

/// Time for the response of the restore to reach its caller.
const END_WITHIN: Duration = Duration::from_secs(5);

struct Awaiting {
    authenticator: Authenticator,
    own_hosts: Vec<String>,
    target: Target,
    /// Held by the running restore.
    turn: Mutex<()>,
    is_restored: watch::Sender<bool>,
}

/// Serves until a backup has been restored into the data directory.
///
/// # Errors
/// When the node cannot listen on its address.
pub async fn backup_has_come(settings: &EdgeSettings, target: Target) -> io::Result<()> {
    let listener = TcpListener::bind(&settings.listen).await?;
    let (is_restored, mut restored) = watch::channel(false);
    let directory = target.directory.display().to_string();
    let authenticator = settings.authenticator.clone();
    let own_hosts = settings.own_hosts();
    let awaiting = Arc::new(Awaiting { authenticator, own_hosts, target, turn: Mutex::default(), is_restored });
    let router = Router::new()
        .route("/healthz", get(|| async { Json(json!({ "ok": true })) }))
        .route("/readyz", get(not_ready))
        .route("/v1/cluster/restore", post(restore_from))
        .fallback(|| async { Failure::from(Problem::new(Code::Unavailable).with_detail(WAITS)) })
        .layer(from_fn(named))
        .with_state(awaiting);
    let server = EdgeServer::start(listener, settings.tls.clone(), router, settings.server.clone(), Metrics::new())?;
    tracing::info!(callers = %server.address(), directory, "waiting for a backup: POST it to /v1/cluster/restore");
    tokio::select! {
        // Fails only when the sender is dropped, and the server holds it.
        _ = restored.wait_for(|restored| *restored) => {}
        () = keep_up(settings) => {}
    }
    server.shutdown(END_WITHIN).await;
    Ok(())
}

/// Reloads API keys and certificates, as every other node does. Never ends.
async fn keep_up(settings: &EdgeSettings) {
    let api_keys = async {
        match settings.authenticator.clone() {
            Authenticator::ApiKeys(api_keys) => api_keys.keep_up().await,
            Authenticator::SelfReported => pending().await,
        }
    };
    let tls = async {
        match settings.tls.clone() {
            Some(tls) => certificates::renew("callers", move || tls.reload()).await,
            None => pending().await,
        }
    };
    tokio::join!(api_keys, tls);
}

const WAITS: &str = "this node waits for a backup: POST one to /v1/cluster/restore";

async fn not_ready() -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, Json(json!({ "ok": false, "why": WAITS }))).into_response()
}

async fn restore_from(State(awaiting): State<Arc<Awaiting>>, request: Request) -> Reply<Restored> {
    let (mut parts, body) = request.into_parts();
    if matches!(awaiting.authenticator, Authenticator::SelfReported) {
        local::check(&parts.uri, &parts.headers, &awaiting.own_hosts)?;
    }
    let (identity, _) = identify(&awaiting.authenticator, &parts.headers, &parts.extensions)?;
    check_cluster_right(&identity, ClusterRight::Admin)?;
    tracing::info!(actor = identity.actor.as_str(), "caller asked to restore a backup");
    let Query(asked) = Query::<RestoreQuery>::from_request_parts(&mut parts, &()).await?;
    let busy =
        || Problem::new(Code::ChangeRefused).with_detail("another restore into this node is running; wait for it");
    let _turn = awaiting.turn.try_lock().map_err(|_| busy())?;
    if *awaiting.is_restored.borrow() {
        return Err(Problem::new(Code::ChangeRefused).with_detail("this node has already been restored").into());
    }
    let token_floor = asked.token_floor.map(Token);
    let target = Target { token_floor, accept_clock: asked.accept_clock, ..awaiting.target.clone() };
    let node = target.node;
    let restored = restore::from_stream(body.into_data_stream(), target).await.map_err(not_restored)?;
    awaiting.is_restored.send_replace(true);
    Ok(Json(Restored {
        node,
        cluster: format!("{:032x}", restored.cluster),
        from_cluster: format!("{:032x}", restored.backup.cluster),
        applied: restored.backup.snapshot.last.map_or(0, |last| last.index),
    }))
}

fn not_restored(error: RestoreError) -> Failure {
    tracing::warn!(%error, "restore failed");
    let code = match &error {
        RestoreError::Backup(_) | RestoreError::NoState(_) => {
            return Problem::invalid("body", error.to_string()).into();
        }
        RestoreError::Used(_) | RestoreError::Busy(_) | RestoreError::Rules(_) => Code::ChangeRefused,
        RestoreError::Refused(_) => Code::RestoreRefused,
        RestoreError::Directory(_) | RestoreError::Disk { .. } => Code::Internal,
    };
    Problem::new(code).with_detail(error.to_string()).into()
}

/// Adds the request id to every response, as on every other node.
async fn named(mut request: Request, next: Next) -> Response {
    let (name, trace) = answer::named(request.headers());
    let span = trace::request_span(&trace, name.as_str(), None);
    request.extensions_mut().insert(name.clone());
    let mut response = next.run(request).instrument(span).await;
    finished(&mut response, &name, &trace);
    response
}
