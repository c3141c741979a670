//! CPU time, memory and identity of processes.

use std::fs;
use std::io::Read as _;

use outlive_holder::clock;
use serde::Serialize;

/// Longer command lines are cut: some programs have megabytes of arguments.
const MAX_COMMAND_BYTES: u64 = 4096;

/// Resource usage of a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    /// CPU time of the living members and of their children that they have waited for.
    pub cpu_ms: u64,
    pub rss_bytes: u64,
}

/// One process of a tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TreeProcess {
    pub pid: i32,
    pub ppid: i32,
    /// The command line, or the name of a process without one.
    pub command: String,
    /// The kernel's letter: R running, S sleeping, D waiting for a device, T stopped, …
    pub state: char,
    pub cpu_ms: u64,
    pub rss_bytes: u64,
    pub started_at_ms: u64,
}

/// The usage of these processes together. Processes that no longer exist count nothing.
pub fn usage(members: &[i32]) -> Usage {
    let mut total = Usage::default();
    for pid in members {
        let Some(stat) = Stat::read(*pid) else {
            continue;
        };
        let ticks = stat.own_ticks.saturating_add(stat.children_ticks);
        total.cpu_ms = total.cpu_ms.saturating_add(ticks_to_ms(ticks));
        total.rss_bytes += rss_bytes(*pid);
    }
    total
}

/// Describes these processes, without those that no longer exist.
pub fn tree(members: &[i32]) -> Vec<TreeProcess> {
    let booted_at_ms = clock::wall_ms().saturating_sub(clock::boot_ms());
    let process = |pid: &i32| {
        let stat = Stat::read(*pid)?;
        Some(TreeProcess {
            pid: *pid,
            ppid: stat.ppid,
            command: command_line(*pid).unwrap_or(stat.name),
            state: stat.state,
            cpu_ms: ticks_to_ms(stat.own_ticks),
            rss_bytes: rss_bytes(*pid),
            started_at_ms: booted_at_ms.saturating_add(ticks_to_ms(stat.start_ticks)),
        })
    };
    members.iter().filter_map(process).collect()
}

struct Stat {
    name: String,
    state: char,
    ppid: i32,
    own_ticks: u64,
    children_ticks: u64,
    start_ticks: u64,
}

impl Stat {
    fn read(pid: i32) -> Option<Self> {
        Self::parse(&fs::read(format!("/proc/{pid}/stat")).ok()?)
    }

    /// The name may contain any byte, even `)`: the fields begin after the last one.
    fn parse(line: &[u8]) -> Option<Self> {
        let open = line.iter().position(|byte| *byte == b'(')?;
        let close = line.iter().rposition(|byte| *byte == b')')?;
        let name = String::from_utf8_lossy(line.get(open + 1..close)?).into_owned();
        let fields = std::str::from_utf8(line.get(close + 1..)?).ok()?;
        let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
        // Counted as in proc(5), where the state is field 3.
        let field = |number: usize| fields.get(number - 3).copied();
        let ticks = |number| field(number)?.parse::<u64>().ok();
        Some(Self {
            name,
            state: field(3)?.chars().next()?,
            ppid: field(4)?.parse().ok()?,
            own_ticks: ticks(14)?.saturating_add(ticks(15)?),
            children_ticks: ticks(16)?.saturating_add(ticks(17)?),
            start_ticks: ticks(22)?,
        })
    }
}

fn ticks_to_ms(ticks: u64) -> u64 {
    ticks.saturating_mul(1000) / rustix::param::clock_ticks_per_second().max(1)
}

fn rss_bytes(pid: i32) -> u64 {
    let statm = fs::read_to_string(format!("/proc/{pid}/statm")).unwrap_or_default();
    let pages = statm.split_ascii_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok());
    pages.unwrap_or(0) * rustix::param::page_size() as u64
}

/// The arguments joined by spaces; `None` for zombies and kernel threads, which have none.
fn command_line(pid: i32) -> Option<String> {
    let file = fs::File::open(format!("/proc/{pid}/cmdline")).ok()?;
    let mut bytes = Vec::new();
    file.take(MAX_COMMAND_BYTES).read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes).trim_end_matches('\0').replace('\0', " ");
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &[u8] = b"42 (a) Z (b\n) S 7 8 9 0 -1 4194560 1 2 3 4 100 20 3000 400 20 0 1 0 555 1 2 3\n";

    #[test]
    fn a_name_with_parentheses_does_not_shift_the_fields() {
        let stat = Stat::parse(LINE).expect("a whole line");
        assert_eq!((stat.name.as_str(), stat.state, stat.ppid), ("a) Z (b\n", 'S', 7));
        assert_eq!((stat.own_ticks, stat.children_ticks, stat.start_ticks), (120, 3400, 555));
    }

    #[test]
    fn truncated_lines_are_rejected() {
        let start = LINE.windows(3).position(|part| part == b"555").expect("it is there");
        for cut in 0..start {
            assert!(Stat::parse(&LINE[..cut]).is_none(), "cut at {cut}");
        }
    }

    #[test]
    fn this_process_is_described() {
        let me = std::process::id() as i32;
        let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while usage(&[me]).cpu_ms == 0 {
            assert!(std::time::Instant::now() < until, "no CPU time was counted");
        }
        assert!(usage(&[me]).rss_bytes > 100 * 1024);
        assert_eq!(usage(&[me, i32::MAX]).rss_bytes / 1024 / 1024, usage(&[me]).rss_bytes / 1024 / 1024);

        let processes = tree(&[me, i32::MAX]);
        assert_eq!(processes.len(), 1, "missing processes are left out");
        let own = &processes[0];
        assert_eq!((own.pid, own.ppid), (me, std::os::unix::process::parent_id() as i32));
        let program = std::env::args().next().expect("a program name");
        assert!(own.command.starts_with(&program), "{}", own.command);
        let age = clock::wall_ms().saturating_sub(own.started_at_ms);
        assert!(own.started_at_ms <= clock::wall_ms() + 20 && age < 3_600_000, "{age}");
    }

    #[test]
    fn a_zombie_has_a_name_but_no_command_line() {
        let mut child = std::process::Command::new("true").spawn().expect("true starts");
        let pid = child.id() as i32;
        let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while Stat::read(pid).is_none_or(|stat| stat.state != 'Z') {
            assert!(std::time::Instant::now() < until, "the child did not exit");
            std::thread::yield_now();
        }
        assert_eq!(tree(&[pid])[0].command, "true");
        child.wait().expect("our child");
    }

    #[test]
    fn the_wire_form_is_camel_case() {
        let me = std::process::id() as i32;
        let json = serde_json::to_value(&tree(&[me])[0]).expect("it serializes");
        let mut keys: Vec<_> = json.as_object().expect("an object").keys().map(String::as_str).collect();
        keys.sort_unstable();
        assert_eq!(keys, ["command", "cpuMs", "pid", "ppid", "rssBytes", "startedAtMs", "state"]);
        assert!(json["state"].is_string());
    }
}
