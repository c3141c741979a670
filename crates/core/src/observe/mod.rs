//! What the processes of a tree, and the machine as a whole, are doing right now, read from /proc on demand.
//!
//! Owns no state and keeps nothing open. Every function here but `machine` blocks: /proc shows some things of a process
//! only under the lock of its memory (`cmdline`), so a stuck process can hang its reader. Call from a
//! thread that may wait, never from a task.

mod machine;
mod ports;
mod usage;

use outlive_holder::tree::{Root, members as members_of, scan};

pub use machine::{Machine, machine};
pub use ports::{ListeningPort, listening_ports};
pub use usage::{TreeProcess, Usage, tree, usage};

/// The living processes of a managed process's tree, oldest first. `pid` is the command while it runs, else
/// 0.
pub fn members(pid: u32, key: u64) -> Vec<i32> {
    let root = Root { environ_id: None, ..Root::of(pid as i32, key, "") };
    // Beside ourselves the holder, our parent, must not be taken for a member.
    let holder = std::os::unix::process::parent_id() as i32;
    let seen = scan::all().unwrap_or_default();
    members_of(&root, &seen, &[holder]).iter().map(|seen| seen.pid).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_found_by_its_leader() {
        use std::process::{Command, Stdio};

        let mut command = Command::new("setsid");
        command.args(["sh", "-c", "sleep 1000 & echo; wait"]).stdout(Stdio::piped());
        let mut child = command.spawn().expect("setsid starts");
        let mut line = [0];
        let stdout = child.stdout.as_mut().expect("it is piped");
        std::io::Read::read_exact(stdout, &mut line).expect("it says that it is ready");
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
