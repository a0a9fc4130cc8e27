//! A light mixture of `mutex` and `register`, to run together with membership changes.

use super::{Ground, mutex, register};

pub(super) async fn start(ground: &Ground) -> Result<(), String> {
    let half = ground.size.share(2);
    mutex::start(&ground.part("mutex", half)).await?;
    register::start(&ground.part("register", half)).await
}
