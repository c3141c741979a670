//! What a command means in each phase of a process, as a pure function: no I/O, no clock, no lock.

use outlive_holder::log::Exit;

use super::info::Status;
use crate::{Error, Result};

/// The phase of a process's life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Reserved, not started.
    Created,
    /// The holder was asked to spawn it and has not replied.
    Starting,
    Running {
        pid: u32,
        started_at_ms: u64,
    },
    Exited(Exit),
    /// It ran when an earlier boot ended, and how it ended is not known. Only for a process of the history.
    Lost,
}

impl Phase {
    pub(crate) fn status(&self) -> Status {
        match self {
            Self::Created | Self::Starting => Status::Created,
            Self::Running { .. } => Status::Running,
            Self::Exited(_) => Status::Exited,
            Self::Lost => Status::Lost,
        }
    }
}

/// A request that depends on the phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Start,
    Restart,
    Stop,
    Kill,
    Signal,
    Input,
    Resize,
    Delete { force: bool },
}

/// What a command leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Request the next generation from the holder.
    Spawn,
    /// End the tree, then spawn the next generation.
    EndThenSpawn,
    /// TERM now, KILL after the grace period.
    Stop,
    /// KILL the tree, or its remaining members.
    Kill,
    /// KILL the tree, wait for the exit, remove the record.
    KillThenRemove,
    Remove,
    /// Pass it on to the program.
    Forward,
    /// The process already is in the requested state.
    Nothing,
    /// Decide again when the holder has replied to the pending spawn.
    Wait,
}

pub(crate) fn decide(phase: &Phase, command: Command) -> Result<Decision> {
    use Command as C;
    use Decision as D;
    use Phase as P;
    let not_running = || Error::conflict("not_running", "process is not running");
    Ok(match (phase, command) {
        (P::Created | P::Exited(_), C::Start | C::Restart) => D::Spawn,
        (P::Running { .. }, C::Restart) => D::EndThenSpawn,
        (P::Running { .. }, C::Start) => {
            return Err(Error::conflict("already_running", "process is already running"));
        }
        (P::Starting, C::Start) => {
            return Err(Error::conflict("starting", "process is already being started"));
        }
        (P::Starting, _) => D::Wait,
        (P::Running { .. }, C::Stop) => D::Stop,
        (P::Running { .. } | P::Exited(_), C::Kill) => D::Kill,
        // A kill still reaches remaining members of an exited process's tree; a stop has nothing left to do.
        (P::Exited(_), C::Stop) | (P::Created, C::Stop | C::Kill) => D::Nothing,
        (P::Running { .. }, C::Signal | C::Input | C::Resize) => D::Forward,
        (P::Created | P::Exited(_) | P::Lost, C::Delete { .. }) => D::Remove,
        (P::Lost, _) => return Err(Error::earlier_boot()),
        (_, C::Signal | C::Input | C::Resize) => return Err(not_running()),
        (P::Running { .. }, C::Delete { force: true }) => D::KillThenRemove,
        (P::Running { .. }, C::Delete { force: false }) => {
            return Err(Error::conflict("still_running", "process is still running; stop or kill it before delete"));
        }
    })
}

#[cfg(test)]
mod tests {
    use outlive_holder::log::Cause;

    use super::*;

    #[test]
    fn every_command_is_decided_in_every_phase() {
        let running = Phase::Running { pid: 1, started_at_ms: 0 };
        let exited = Phase::Exited(Exit { generation: 1, status: Ok(0), cause: Cause::SelfExit, offset: 0, at_ms: 0 });
        let phases = [Phase::Created, Phase::Starting, running, exited, Phase::Lost];
        let delete = Command::Delete { force: false };
        let force = Command::Delete { force: true };
        // For each command: the decision or the error code, in the phases created, starting, running, exited, lost.
        let table: [(Command, [&str; 5]); 9] = [
            (Command::Start, ["Spawn", "starting", "already_running", "Spawn", "earlier_boot"]),
            (Command::Restart, ["Spawn", "Wait", "EndThenSpawn", "Spawn", "earlier_boot"]),
            (Command::Stop, ["Nothing", "Wait", "Stop", "Nothing", "earlier_boot"]),
            (Command::Kill, ["Nothing", "Wait", "Kill", "Kill", "earlier_boot"]),
            (Command::Signal, ["not_running", "Wait", "Forward", "not_running", "earlier_boot"]),
            (Command::Input, ["not_running", "Wait", "Forward", "not_running", "earlier_boot"]),
            (Command::Resize, ["not_running", "Wait", "Forward", "not_running", "earlier_boot"]),
            (delete, ["Remove", "Wait", "still_running", "Remove", "Remove"]),
            (force, ["Remove", "Wait", "KillThenRemove", "Remove", "Remove"]),
        ];
        for (command, expected) in table {
            for (phase, expected) in phases.iter().zip(expected) {
                let got = match decide(phase, command) {
                    Ok(decision) => format!("{decision:?}"),
                    Err(error) => error.code().to_owned(),
                };
                assert_eq!(got, expected, "{command:?} in {phase:?}");
            }
        }
    }
}
