//! Calls on leases: renew, extend, release, reserve; and for operators, revoke.

use crate::Client;
use crate::call::Call;
use crate::path::Path;
use crate::request::Effect;
use api::hold::{
    Extend, Extended, Release, Released, Renew, RenewAll, Renewed, RenewedAll, Reserve, Reserved, Revoke, Revoked,
};
use lease::names::ItemId;

impl Client {
    pub fn renew(&self, id: &ItemId, renew: &Renew) -> Call<Renewed> {
        Call::post(self, Path::item(id).verb("renew"), renew).set(|spec| spec.effect = Effect::Same)
    }

    /// Renews every lease of the session: a worker's heartbeat.
    pub fn renew_all(&self, all: &RenewAll) -> Call<RenewedAll> {
        Call::post(self, Path::new("/v1/renewals"), all).set(|spec| spec.effect = Effect::Same)
    }

    /// Extends a lease for a known idle gap. Never shortens it.
    pub fn extend(&self, id: &ItemId, extend: &Extend) -> Call<Extended> {
        Call::post(self, Path::item(id).verb("extend"), extend)
    }

    /// Releases a lease. If the caller holds none, it succeeds with `released: false`.
    pub fn release(&self, id: &ItemId, release: &Release) -> Call<Released> {
        Call::post(self, Path::item(id).verb("release"), release)
    }

    /// Turns a lease into a reservation for its assignee.
    pub fn reserve(&self, id: &ItemId, reserve: &Reserve) -> Call<Reserved> {
        Call::post(self, Path::item(id).verb("reserve"), reserve)
    }

    /// Ends the lease of another holder. For operators.
    pub fn revoke(&self, id: &ItemId, revoke: &Revoke) -> Call<Revoked> {
        Call::post(self, Path::item(id).verb("revoke"), revoke)
    }
}
