//! The threads on which RocksDB flushes and compacts.

use rocksdb::{Env, Error, Options};

/// Runs this database's flushes and compactions at a low CPU priority. Nodes flush at the same time, because their logs
/// are the same: at normal priority each flush delays all calls by tens of milliseconds.
pub(crate) fn lower_priority(options: &mut Options) -> Result<(), Error> {
    // The threads are those of the process, so this concerns all its databases.
    let mut env = Env::new()?;
    env.lower_high_priority_thread_pool_cpu_priority();
    env.lower_thread_pool_cpu_priority();
    options.set_env(&env);
    Ok(())
}
