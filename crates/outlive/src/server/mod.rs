//! The server process: takes over from the holder, serves, and ends when it is stopped or replaced.
//!
//! ```text
//! holder ──Handover──▶ Core + listeners ──▶ accept loops ──▶ api/ and dialect/
//!    └─ Retire ─▶ stop accepting, stop writing, finish responses, close sockets with 1012, exit
//! ```
//!
//! The holder stores what must survive a server: the settings (`settings.rs`) and the listening sockets
//! (`listeners`). A server owns its connections and their limits (`accept`, `connections`, `stream`), TLS (`tls`), the
//! reload of the token and TLS files (`file_watch`), its log output (`logging`) and the return of freed memory
//! (`memory`).

mod accept;
mod connections;
mod file_watch;
mod listeners;
mod logging;
mod memory;
mod stream;
mod tls;

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use outlive_core::history::HistoryOptions;
use outlive_core::{Core, Handover};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use self::accept::ConnectionContext;
pub(crate) use self::connections::ConnectionSlot;
use self::connections::ConnectionTable;
use self::listeners::Listeners;
pub(crate) use self::listeners::{DialectAddress, ListenAddress, listener_fd_name};
pub(crate) use self::stream::FlushTracker;
pub(crate) use self::tls::Tls;
use crate::access::{Access, token, token_store};
use crate::http::{AppState, Metrics, SendBudget};
use crate::settings::{self, HistorySettings, Settings};

/// How long a new server with processes of its predecessor waits for its history.
const MAX_HISTORY_WAIT: Duration = Duration::from_secs(1);
/// Time for the responses of a replaced server. The holder kills it a little later.
const RETIRE_GRACE: Duration = Duration::from_secs(29);
/// Time for open connections and for the newest output on its way to the disk when outlive stops. The holder kills the
/// server a little later.
const STOP_GRACE: Duration = Duration::from_millis(800);
/// Part of it that the history may take to store what is left.
const CLOSE_HISTORY_TIMEOUT: Duration = Duration::from_millis(600);

#[derive(Args)]
pub(crate) struct Options {
    #[arg(long, default_value = "info")]
    log_level: String,
    #[arg(long, default_value = "text")]
    log_format: String,
}

/// Returns the exit code of the server.
pub(crate) fn run(options: &Options) -> i32 {
    memory::configure_allocator();
    if logging::start(&options.log_level, options.log_format == "json").is_err() {
        return 1;
    }
    let _ = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
    // SAFETY: the holder starts this process with its socket as descriptor 0, and nothing else here uses it.
    let holder_socket = unsafe { OwnedFd::from_raw_fd(0) };
    let runtime = match build_runtime() {
        Ok(runtime) => runtime,
        Err(error) => {
            tracing::error!(%error, "cannot start the runtime");
            return 1;
        }
    };
    let code = match runtime.block_on(serve(holder_socket)) {
        Ok(()) => 0,
        Err(error) => {
            tracing::error!(%error, "the server ends with an error");
            1
        }
    };
    // Does not wait for threads that are blocked, for example by a hung mount.
    runtime.shutdown_background();
    logging::flush();
    code
}

/// tokio panics if it needs a blocking thread, has none, and the system cannot create one. So one is created here, and
/// idle threads never end.
fn build_runtime() -> io::Result<tokio::runtime::Runtime> {
    const FOREVER: Duration = Duration::from_secs(u32::MAX as u64);
    const MAX_BLOCKING_THREADS: usize = 64;
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(worker_threads());
    let runtime = builder.enable_all().max_blocking_threads(MAX_BLOCKING_THREADS).thread_keep_alive(FOREVER).build()?;
    runtime.spawn_blocking(|| ());
    Ok(runtime)
}

/// Half of the processors, so that the holder and the programs have the other half. Surplus workers cost more in
/// wake-ups than they gain.
fn worker_threads() -> usize {
    const MAX_WORKERS: usize = 8;
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    (processors / 2).clamp(1, MAX_WORKERS)
}

async fn serve(holder_socket: OwnedFd) -> io::Result<()> {
    let mut handover = Handover::receive(holder_socket).await?;
    let settings = match handover.stored_fds.remove(settings::FD_NAME) {
        Some(fd) => Settings::read(fd)?,
        None => return Err(io::Error::other("the holder has no settings")),
    };
    let listeners = Listeners::take_from(&mut handover.stored_fds)?;
    let tls = settings.tls.clone().map(Tls::load).transpose()?.map(Arc::new);
    let core_limits = outlive_core::config::limits_with_overrides(&settings.core_limits).unwrap_or_default();
    let HistorySettings { directory, off, excluded_tags } = settings.history.clone();
    let history = HistoryOptions { directory, off, exclude_tags: excluded_tags };
    let core = Core::take_over(handover, core_limits, history)?;
    let access = Access::new(&settings, token_store::load_issued(&core)).with_stored_tickets(core.clone());
    let access = Arc::new(access);
    if let Some(file) = &settings.token_file {
        access.set_from_file(token_store::load_file_tokens(&core));
        load_token_file(file, &access, &core);
    }
    watch_files(&settings, &access, &core, tls.as_ref());
    let (shutdown_sender, shutdown) = watch::channel(false);
    let app = AppState {
        core: core.clone(),
        metrics: Arc::new(Metrics::new()),
        access,
        limits: settings.limits,
        send_budget: Arc::new(SendBudget::new(settings.limits.max_unsent_bytes)),
        shutdown,
    };
    // A client that reconnects after a crash must find the output that only history has. Connections wait meanwhile.
    core.wait_history_ready(MAX_HISTORY_WAIT).await;
    let accept_tasks = spawn_accept_loops(&settings, listeners, tls, app);
    tracing::info!(epoch = core.welcome().epoch, "serving");
    let grace = wait_until_stopped(&core, &accept_tasks).await?;
    shutdown_sender.send_replace(true);
    for task in accept_tasks {
        task.abort();
    }
    // Resolves when all receivers are dropped: every connection and every response in progress has one.
    let closed = tokio::time::timeout(grace, shutdown_sender.closed());
    // A server that retires has closed the history already.
    let _ = tokio::join!(closed, core.close_history(STOP_GRACE));
    Ok(())
}

fn spawn_accept_loops(
    settings: &Settings,
    listeners: Listeners,
    tls: Option<Arc<Tls>>,
    app: AppState,
) -> Vec<JoinHandle<()>> {
    let mut allowed_uids = settings.allow_uids.clone();
    allowed_uids.extend([0, rustix::process::geteuid().as_raw()]);
    let connections = ConnectionTable::new(&settings.limits);
    tokio::spawn(memory::trim_when_idle(Arc::clone(&connections)));
    let shutdown = app.shutdown.clone();
    let context = Arc::new(ConnectionContext { connections, limits: settings.limits, tls, allowed_uids, shutdown });
    let routed = listeners.with_routers(&app).into_iter();
    routed.map(|(socket, router)| tokio::spawn(accept::accept_loop(socket, router, Arc::clone(&context)))).collect()
}

/// Waits for SIGTERM, or until another server takes over; returns how long connections may take to finish.
async fn wait_until_stopped(core: &Core, accept_tasks: &[JoinHandle<()>]) -> io::Result<Duration> {
    let mut terminate = signal(SignalKind::terminate())?;
    // Ignored: the signals of a terminal are meant for the programs.
    let mut ignored = (signal(SignalKind::interrupt())?, signal(SignalKind::hangup())?);
    let mut holder_status = core.holder_status();
    let mut has_holder = true;
    loop {
        tokio::select! {
            _ = terminate.recv() => {
                let stopped_at = std::time::Instant::now();
                core.remove_private_directory();
                core.close_history(CLOSE_HISTORY_TIMEOUT).await;
                return Ok(STOP_GRACE.saturating_sub(stopped_at.elapsed()));
            }
            retire = holder_status.wait_for(|status| status.retire), if has_holder => {
                if retire.is_err() {
                    // Without a holder no other server can take over.
                    tracing::error!("the holder is gone: logs can be read, but nothing can be started or stopped");
                    has_holder = false;
                    continue;
                }
                tracing::info!("another server takes over");
                for task in accept_tasks {
                    task.abort();
                }
                core.retire().await;
                return Ok(RETIRE_GRACE);
            }
            _ = ignored.0.recv() => {}
            _ = ignored.1.recv() => {}
        }
    }
}

/// An invalid file changes nothing, not even for the next server: the valid tokens of this one are in the journal.
fn load_token_file(file: &Path, access: &Access, core: &Core) {
    match token::read_file(file) {
        Ok(tokens) => {
            tracing::info!(tokens = tokens.len(), "token file loaded");
            token_store::save_file_tokens(core, &tokens);
            access.set_from_file(tokens);
        }
        Err(error) => {
            tracing::error!(file = %file.display(), error, "cannot load the token file, the previous tokens stay valid");
        }
    }
}

fn watch_files(settings: &Settings, access: &Arc<Access>, core: &Core, tls: Option<&Arc<Tls>>) {
    if let Some(file) = &settings.token_file {
        let (access, core, path) = (Arc::clone(access), core.clone(), file.clone());
        file_watch::spawn(std::slice::from_ref(file), move || load_token_file(&path, &access, &core));
    }
    if let (Some(tls), Some(files)) = (tls, &settings.tls) {
        let tls = Arc::clone(tls);
        file_watch::spawn(&[files.certificate.clone(), files.key.clone()], move || tls.reload());
    }
}
