//! What a command means in a state. No I/O, no clock of its own, no lock: a table.

use outlive_holder::log::Exit;

use crate::{Error, Result};

/// Where a process is in its life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Reserved, not started.
    Created,
    /// The holder has been asked to start generation `next`.
    Starting,
    Running {
        pid: u32,
        started_at_ms: u64,
    },
    Exited(Exit),
}

/// What somebody wants.
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

/// What has to be done about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Ask the holder for the next generation.
    Spawn,
    /// End the tree, and start again when it has ended.
    EndThenSpawn,
    /// TERM now, KILL later.
    Stop,
    /// KILL the tree, or what is left of it.
    Kill,
    /// KILL, wait for the end, remove.
    KillThenRemove,
    Remove,
    /// Go on to the program.
    Forward,
    /// Nothing to do: it already is as wanted.
    Nothing,
    /// Ask again when the holder has answered; that takes a moment.
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
            return Err(Error::conflict("starting", "process is just being started"));
        }
        (P::Starting, _) => D::Wait,
        (P::Running { .. }, C::Stop) => D::Stop,
        (P::Running { .. } | P::Exited(_), C::Kill) => D::Kill,
        // What is left of the tree of an exited process can still be reached by a kill, but a stop has happened.
        (P::Exited(_), C::Stop) | (P::Created, C::Stop | C::Kill) => D::Nothing,
        (P::Running { .. }, C::Signal | C::Input | C::Resize) => D::Forward,
        (_, C::Signal | C::Input | C::Resize) => return Err(not_running()),
        (P::Created | P::Exited(_), C::Delete { .. }) => D::Remove,
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
    fn decide_is_this_table() {
        let running = Phase::Running { pid: 1, started_at_ms: 0 };
        let exited = Phase::Exited(Exit { generation: 1, status: Ok(0), cause: Cause::Itself, offset: 0, at_ms: 0 });
        let phases = [Phase::Created, Phase::Starting, running, exited];
        let delete = Command::Delete { force: false };
        let force = Command::Delete { force: true };
        // For each command: the decision, or the code of the refusal, in the phases created, starting, running, exited.
        let table: [(Command, [&str; 4]); 9] = [
            (Command::Start, ["Spawn", "starting", "already_running", "Spawn"]),
            (Command::Restart, ["Spawn", "Wait", "EndThenSpawn", "Spawn"]),
            (Command::Stop, ["Nothing", "Wait", "Stop", "Nothing"]),
            (Command::Kill, ["Nothing", "Wait", "Kill", "Kill"]),
            (Command::Signal, ["not_running", "Wait", "Forward", "not_running"]),
            (Command::Input, ["not_running", "Wait", "Forward", "not_running"]),
            (Command::Resize, ["not_running", "Wait", "Forward", "not_running"]),
            (delete, ["Remove", "Wait", "still_running", "Remove"]),
            (force, ["Remove", "Wait", "KillThenRemove", "Remove"]),
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
