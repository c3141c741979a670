//! The disposable part: takes over from the holder, serves, and ends when it is told to.
//!
//! ```text
//! holder ──Handover──▶ Core + listeners ──▶ accept loops ──▶ api::router
//!    └─ Retire ─▶ stop accepting, stop writing, let answers finish, close sockets with 1012, exit
//! ```

mod accept;
mod logging;

use std::io;
use std::net::SocketAddr;
use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use clap::Args;
use outlive_core::{Core, Handover};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::api::{self, App, Metrics};

/// Kept listeners have names that begin like this.
pub(crate) const LISTENER: &str = "listen/";

/// How long a server that was replaced may finish its answers; the holder kills it a little later.
const LINGER: Duration = Duration::from_secs(29);
/// How long open connections may take when everything is stopped.
const STOP_WITHIN: Duration = Duration::from_millis(800);

#[derive(Args)]
pub(crate) struct Options {
    #[arg(long, default_value = "info")]
    log_level: String,
    #[arg(long, default_value = "text")]
    log_format: String,
}

/// Returns the exit code of the server.
pub(crate) fn run(options: &Options) -> i32 {
    logging::start(&options.log_level, options.log_format == "json");
    let _ = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
    // SAFETY: the holder starts us with its line as descriptor 0, and nothing else here uses it.
    let line = unsafe { OwnedFd::from_raw_fd(0) };
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            tracing::error!(%error, "cannot start the runtime");
            return 1;
        }
    };
    let code = match runtime.block_on(serve(line)) {
        Ok(()) => 0,
        Err(error) => {
            tracing::error!(%error, "the server ends");
            1
        }
    };
    // Threads that wait for a hung mount must not keep us.
    runtime.shutdown_background();
    code
}

async fn serve(line: OwnedFd) -> io::Result<()> {
    let mut handover = Handover::receive(line).await?;
    let mut listeners = Vec::new();
    let names: Vec<String> = handover.kept.keys().filter(|name| name.starts_with(LISTENER)).cloned().collect();
    for name in names {
        if let Some(fd) = handover.kept.remove(&name) {
            listeners.push(accept::Listener::from_kept(fd)?);
        }
    }
    let core = Core::take_over(handover)?;
    let (end, ending) = watch::channel(false);
    let app = App { core: core.clone(), metrics: Arc::new(Metrics::new()), ending };
    let router = api::router(app);
    let mut notice = core.notice();
    let accepting: Vec<_> = listeners
        .into_iter()
        .map(|listener| tokio::spawn(accept::accept(listener, router.clone(), end.subscribe())))
        .collect();
    drop(router);
    tracing::info!(epoch = core.welcome().epoch, "serving");
    let mut stop = signal(SignalKind::terminate())?;
    // Not ours to act on: the terminal's signals are for programs.
    let mut ignored = (signal(SignalKind::interrupt())?, signal(SignalKind::hangup())?);
    let mut alone = false;
    let linger = loop {
        tokio::select! {
            _ = stop.recv() => break STOP_WITHIN,
            retire = notice.wait_for(|notice| notice.retire), if !alone => {
                if retire.is_err() {
                    // The holder is gone, so nobody will ever ask us to retire.
                    alone = true;
                    continue;
                }
                tracing::info!("another server takes over");
                for task in &accepting {
                    task.abort();
                }
                core.retire().await;
                break LINGER;
            }
            _ = ignored.0.recv() => {}
            _ = ignored.1.recv() => {}
        }
    };
    end.send_replace(true);
    for task in accepting {
        task.abort();
    }
    // Every connection and every answer under way holds a receiver.
    let _ = tokio::time::timeout(linger, end.closed()).await;
    Ok(())
}

/// Where a request came from.
#[derive(Clone, Debug)]
pub(crate) struct Peer(pub(crate) Option<SocketAddr>);

impl std::fmt::Display for Peer {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(address) => address.fmt(out),
            None => out.write_str("local"),
        }
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Peer {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        Ok(parts.extensions.get().cloned().unwrap_or(Self(None)))
    }
}
