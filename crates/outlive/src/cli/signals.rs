//! Signals to this process.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Received {
    /// One that asks us to end, by its number.
    End(Ending),
    Resized,
    Suspended,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Interrupt,
    Terminate,
    Hangup,
    Quit,
}

impl Ending {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Interrupt => "SIGINT",
            Self::Terminate => "SIGTERM",
            Self::Hangup => "SIGHUP",
            Self::Quit => "SIGQUIT",
        }
    }

    /// What shells report of a program that died of it.
    pub(crate) fn exit_code(self) -> i32 {
        super::exit::BY_SIGNAL
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
    /// From here on these signals do nothing by themselves.
    pub(crate) fn catch() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
            quit: signal(SignalKind::quit())?,
            window: signal(SignalKind::window_change())?,
            suspend: None,
        })
    }

    /// Ctrl-Z too.
    pub(crate) fn with_suspend(mut self) -> io::Result<Self> {
        self.suspend = Some(signal(SignalKind::from_raw(SIGTSTP))?);
        Ok(self)
    }

    pub(crate) async fn next(&mut self) -> Received {
        tokio::select! {
            _ = self.interrupt.recv() => Received::End(Ending::Interrupt),
            _ = self.terminate.recv() => Received::End(Ending::Terminate),
            _ = self.hangup.recv() => Received::End(Ending::Hangup),
            _ = self.quit.recv() => Received::End(Ending::Quit),
            _ = self.window.recv() => Received::Resized,
            () = received(self.suspend.as_mut()) => Received::Suspended,
        }
    }
}

async fn received(signal: Option<&mut Signal>) {
    match signal {
        Some(signal) => {
            signal.recv().await;
        }
        None => std::future::pending().await,
    }
}

/// Stops this process until somebody continues it.
pub(crate) fn stop_here() {
    let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::STOP);
}
