//! The disposable part: takes over from the holder, serves, and ends when it is told to.
//!
//! ```text
//! holder ──Handover──▶ Core + listeners ──▶ accept loops ──▶ api/ and dialect/
//!    └─ Retire ─▶ stop accepting, stop writing, let answers finish, close sockets with 1012, exit
//! ```

mod accept;
mod connections;
mod files;
mod heard;
mod listeners;
mod logging;
mod memory;
mod sent;
mod tls;

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use outlive_core::{Core, Handover};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

pub(crate) use self::connections::Place;
pub(crate) use self::listeners::{DialectAddress, Place as ListenAt, kept_as};
pub(crate) use self::sent::Sent;
pub(crate) use self::tls::Tls;
use crate::access::Access;
use crate::access::token;
use crate::api::{self, App, Metrics};
use crate::front::Unsent;
use crate::settings::{self, Settings};

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
    memory::set_up();
    if logging::start(&options.log_level, options.log_format == "json").is_err() {
        return 1;
    }
    let _ = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
    // SAFETY: the holder starts us with its line as descriptor 0, and nothing else here uses it.
    let line = unsafe { OwnedFd::from_raw_fd(0) };
    let runtime = match runtime() {
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
    logging::flush();
    code
}

/// tokio panics when work that blocks finds no thread and the system gives none. So there is always one: it is made
/// here, and none ever goes for want of work.
fn runtime() -> io::Result<tokio::runtime::Runtime> {
    const FOREVER: Duration = Duration::from_secs(u32::MAX as u64);
    const MOST_BLOCKING: usize = 64;
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(workers());
    let runtime = builder.enable_all().max_blocking_threads(MOST_BLOCKING).thread_keep_alive(FOREVER).build()?;
    runtime.spawn_blocking(|| ());
    Ok(runtime)
}

/// Half of the processors: the other half is for the holder and the programs, and a worker too many costs more by waking
/// up for nothing than it gives.
fn workers() -> usize {
    const MOST: usize = 8;
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    (processors / 2).clamp(1, MOST)
}

async fn serve(line: OwnedFd) -> io::Result<()> {
    let mut handover = Handover::receive(line).await?;
    let settings = match handover.kept.remove(settings::KEPT_AS) {
        Some(kept) => Settings::read(kept)?,
        None => return Err(io::Error::other("the holder has no settings")),
    };
    let listeners = listeners::Listeners::take_from(&mut handover.kept)?;
    let tls = settings.tls.clone().map(Tls::load).transpose()?.map(Arc::new);
    let start = outlive_core::config::with_limits(&settings.core_limits).unwrap_or_default();
    let core = Core::take_over(handover, start)?;
    let access = Arc::new(Access::new(&settings, api::issued_tokens(&core)));
    if let Some(file) = &settings.token_file {
        access.set_from_file(api::tokens_of_file(&core));
        read_token_file(file, &access, &core);
    }
    watch_files(&settings, &access, &core, tls.as_ref());
    let (end, ending) = watch::channel(false);
    let app = App {
        core: core.clone(),
        metrics: Arc::new(Metrics::new()),
        access,
        limits: settings.limits,
        dialect_addresses: listeners.dialect_addresses().into(),
        opencode: Arc::default(),
        unsent: Arc::new(Unsent::new(settings.limits.max_unsent_bytes)),
        ending,
    };
    crate::dialect::take_over(&app);
    let mut uids = settings.allow_uids.clone();
    uids.extend([0, rustix::process::geteuid().as_raw()]);
    let shared = Arc::new(accept::Shared {
        connections: connections::Connections::new(&settings.limits),
        limits: settings.limits,
        tls,
        uids,
        ending: end.subscribe(),
    });
    let mut notice = core.notice();
    let accepting: Vec<_> = listeners
        .with_routers(&app)
        .into_iter()
        .map(|(socket, router)| tokio::spawn(accept::accept(socket, router, Arc::clone(&shared))))
        .collect();
    tokio::spawn(memory::give_back_when_quiet(Arc::clone(&shared.connections)));
    // Whoever still has one of these is still answering somebody.
    drop((shared, app));
    tracing::info!(epoch = core.welcome().epoch, "serving");
    let mut stop = signal(SignalKind::terminate())?;
    // Not ours to act on: the terminal's signals are for programs.
    let mut ignored = (signal(SignalKind::interrupt())?, signal(SignalKind::hangup())?);
    let mut alone = false;
    let linger = loop {
        tokio::select! {
            _ = stop.recv() => {
                core.stopped();
                break STOP_WITHIN;
            }
            retire = notice.wait_for(|notice| notice.retire), if !alone => {
                if retire.is_err() {
                    // So nobody will ever ask us to retire.
                    tracing::error!("the holder is gone: what is kept can be read, and nothing can be started or stopped any more");
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

/// A file that makes no sense changes nothing, also for the next server: it knows what this one has read.
fn read_token_file(file: &Path, access: &Access, core: &Core) {
    match token::read_file(file) {
        Ok(tokens) => {
            tracing::info!(tokens = tokens.len(), "the token file was read");
            api::keep_tokens_of_file(core, &tokens);
            access.set_from_file(tokens);
        }
        Err(error) => tracing::error!(file = %file.display(), error, "the token file is not taken"),
    }
}

fn watch_files(settings: &Settings, access: &Arc<Access>, core: &Core, tls: Option<&Arc<Tls>>) {
    if let Some(file) = &settings.token_file {
        let (access, core, path) = (Arc::clone(access), core.clone(), file.clone());
        files::watch(std::slice::from_ref(file), move || read_token_file(&path, &access, &core));
    }
    if let (Some(tls), Some(files)) = (tls, &settings.tls) {
        let tls = Arc::clone(tls);
        files::watch(&[files.certificate.clone(), files.key.clone()], move || tls.reload());
    }
}
