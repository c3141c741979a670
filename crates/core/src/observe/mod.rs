//! Usage of the processes of a tree and of the whole machine, read from /proc on demand.
//!
//! Keeps no state and no descriptors. Every function except `machine` blocks: the kernel takes a process's memory lock
//! for `cmdline`, so a stuck process can hang its reader. Call them on a blocking thread, never in a task.

mod machine;
mod ports;
mod usage;

use outlive_holder::tree::{TreeRoot, members as members_of, scan};

pub use machine::{Machine, machine};
pub use ports::{ListeningPort, listening_ports};
pub use usage::{TreeProcess, Usage, tree, usage};

/// The living processes of a managed process's tree, oldest first. `pid` is that of the command while it runs, else 0.
pub fn members(pid: u32, key: u64) -> Vec<i32> {
    let root = TreeRoot { environ_id: None, ..TreeRoot::from_running(pid as i32, key, "") };
    // The holder, our parent, must not be mistaken for a member.
    let holder = std::os::unix::process::parent_id() as i32;
    let seen = scan::all().unwrap_or_default();
    members_of(&root, &seen, &[holder]).iter().map(|seen| seen.pid).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_found_by_their_session_leader() {
        use std::process::{Command, Stdio};

        let mut command = Command::new("setsid");
        command.args(["sh", "-c", "sleep 1000 & echo; wait"]).stdout(Stdio::piped());
        let mut child = command.spawn().expect("setsid starts");
        let mut line = [0];
        let stdout = child.stdout.as_mut().expect("it is piped");
        std::io::Read::read_exact(stdout, &mut line).expect("the shell is ready");
        // A key that no process carries: as where marks cannot be set.
        let found = members(child.id(), 1);
        assert_eq!((found.len(), found.first()), (2, Some(&(child.id() as i32))));
        assert_eq!(members(0, 1), [0; 0]);
        assert_eq!(tree(&found).len(), 2);
        for pid in found.iter().filter_map(|pid| rustix::process::Pid::from_raw(*pid)) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
        child.wait().expect("our child");
    }
}
