//! Answers questions of one peer, a bounded number at a time, each when it is ready.

use crate::peers::connection::Connection;
use crate::peers::frame::FrameError;
use crate::peers::service::{Peer, Service};
use crate::peers::wire::{
    CallFrame, NodeQuestion, Question, Reply, ReplyFrame, TransferReply, VoteQuestion, VoteReply,
};
use openraft::raft::{TransferLeaderError, TransferLeaderRequest, TransferLeaderResponse, VoteRequest, VoteResponse};
use raft_store::types::Types;
use std::fmt::Display;
use std::sync::Arc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Further questions wait in the connection.
const IN_FLIGHT_MAX: usize = 256;

/// Runs until the connection ends, or until `closing` is set and all earlier questions are answered. It may be dropped
/// at any time.
pub(super) async fn serve<S: Service>(
    service: &Arc<S>,
    peer: &Arc<Peer>,
    connection: Connection,
    closing: &CancellationToken,
) -> Result<(), FrameError> {
    let Connection { mut reader, mut writer } = connection;
    let from = peer.node();
    // They end with the connection, since their answers could not be sent.
    let mut answering = JoinSet::new();
    loop {
        let is_open = !closing.is_cancelled();
        if !is_open && answering.is_empty() {
            return Ok(());
        }
        tokio::select! {
            () = closing.cancelled(), if is_open => {}
            call = reader.next::<CallFrame>(), if is_open && answering.len() < IN_FLIGHT_MAX => {
                let Some(CallFrame { sequence, question }) = call? else { return Ok(()) };
                let (service, peer) = (service.clone(), peer.clone());
                answering.spawn(async move {
                    let reply = if peer.is_member() || is_for_anyone(&question) {
                        answer(&*service, &peer, question).await
                    } else {
                        Reply::Refused { why: "a node that has not joined may only ask to join".to_owned() }
                    };
                    ReplyFrame { sequence, reply }
                });
            }
            Some(answered) = answering.join_next() => {
                let mut answered = Some(answered);
                while let Some(Ok(done)) = answered {
                    if let Err(error) = writer.push(&done) {
                        let why = format!("the reply is too large: {error}");
                        tracing::error!(from, "{why}");
                        writer.push(&ReplyFrame { sequence: done.sequence, reply: Reply::Failed { why } })?;
                    }
                    answered = if writer.is_full() { None } else { answering.try_join_next() };
                }
                if let Some(Err(error)) = answered {
                    // The asker learns from the lost connection that it may have happened.
                    return Err(FrameError::Io(std::io::Error::other(error)));
                }
                // The peer always reads, so this cannot deadlock.
                writer.flush().await?;
            }
        }
    }
}

fn is_for_anyone(question: &Question) -> bool {
    match question {
        Question::Node(NodeQuestion::Join { .. } | NodeQuestion::JoinBy(_) | NodeQuestion::Status) => true,
        Question::Vote(_) | Question::PreVote(_) | Question::TransferLeader { .. } | Question::Node(_) => false,
    }
}

async fn answer<S: Service>(service: &S, from: &Peer, question: Question) -> Reply {
    match question {
        Question::Vote(question) => vote_reply(service.raft().vote(vote_request(&question)).await),
        Question::PreVote(question) => vote_reply(service.raft().pre_vote(vote_request(&question)).await),
        Question::TransferLeader { from, to, last } => {
            let request = TransferLeaderRequest::new(from.into(), to, last.map(Into::into));
            match service.raft().handle_transfer_leader(request).await {
                Ok(response) => Reply::TransferLeader(transfer_reply(response)),
                Err(fatal) => Reply::Failed { why: fatal.to_string() },
            }
        }
        Question::Node(question) => Reply::Node(service.ask(from, question).await),
    }
}

fn vote_request<C: Types>(question: &VoteQuestion) -> VoteRequest<C> {
    VoteRequest {
        vote: question.vote.into(),
        last_log_id: question.last.map(Into::into),
        leadership_transfer: question.leadership_transfer,
    }
}

fn vote_reply<C: Types>(response: Result<VoteResponse<C>, impl Display>) -> Reply {
    match response {
        Ok(response) => Reply::Vote(VoteReply {
            vote: response.vote.into(),
            granted: response.vote_granted,
            last: response.last_log_id.map(Into::into),
        }),
        Err(error) => Reply::Failed { why: error.to_string() },
    }
}

fn transfer_reply<C: Types>(response: TransferLeaderResponse<C>) -> TransferReply {
    match response {
        Ok(()) => TransferReply::Accepted,
        Err(TransferLeaderError::VoteChanged { expected, actual }) => {
            TransferReply::VoteChanged { expected: expected.into(), actual: actual.into() }
        }
        Err(TransferLeaderError::LogNotFlushed { expected, actual }) => {
            TransferReply::LogNotFlushed { expected: expected.map(Into::into), actual: actual.map(Into::into) }
        }
    }
}
