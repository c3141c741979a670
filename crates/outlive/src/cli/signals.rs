//! Signals to the CLI process.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SignalEvent {
    Terminate(TerminationSignal),
    Resized,
    Suspended,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TerminationSignal {
    Interrupt,
    Terminate,
    Hangup,
    Quit,
}

impl TerminationSignal {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Interrupt => "SIGINT",
            Self::Terminate => "SIGTERM",
            Self::Hangup => "SIGHUP",
            Self::Quit => "SIGQUIT",
        }
    }

    /// 128 plus the signal number, as shells report it.
    pub(crate) fn exit_code(self) -> i32 {
        super::exit::SIGNAL_BASE
            + match self {
                Self::Hangup => 1,
                Self::Interrupt => 2,
                Self::Quit => 3,
                Self::Terminate => 15,
            }
    }
}

pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
    quit: Signal,
    window: Signal,
    suspend: Option<Signal>,
}

const SIGTSTP: i32 = 20;

impl Signals {
    /// Replaces the default actions of these signals.
    pub(crate) fn install() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
            quit: signal(SignalKind::quit())?,
            window: signal(SignalKind::window_change())?,
            suspend: None,
        })
    }

    /// Also catches SIGTSTP (Ctrl-Z).
    pub(crate) fn with_suspend(mut self) -> io::Result<Self> {
        self.suspend = Some(signal(SignalKind::from_raw(SIGTSTP))?);
        Ok(self)
    }

    pub(crate) async fn next(&mut self) -> SignalEvent {
        tokio::select! {
            _ = self.interrupt.recv() => SignalEvent::Terminate(TerminationSignal::Interrupt),
            _ = self.terminate.recv() => SignalEvent::Terminate(TerminationSignal::Terminate),
            _ = self.hangup.recv() => SignalEvent::Terminate(TerminationSignal::Hangup),
            _ = self.quit.recv() => SignalEvent::Terminate(TerminationSignal::Quit),
            _ = self.window.recv() => SignalEvent::Resized,
            () = recv_optional(self.suspend.as_mut()) => SignalEvent::Suspended,
        }
    }
}

async fn recv_optional(signal: Option<&mut Signal>) {
    match signal {
        Some(signal) => {
            signal.recv().await;
        }
        None => std::future::pending().await,
    }
}

/// Stops this process until it receives SIGCONT.
pub(crate) fn suspend_self() {
    let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::STOP);
}
