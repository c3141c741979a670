//! Ending a process kills its whole tree, even members that left the session, the environment or the process group.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod harness;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

use harness::{Outlive, Setup, eventually, proc};
use serde_json::{Value, json};

/// Returns a word that no other test has on a command line.
fn unique_marker() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("tree{}x{}x", std::process::id(), COUNT.fetch_add(1, SeqCst))
}

/// Pid and start time, which together identify a process even if the pid is reused.
type ProcessKey = (i32, u64);

fn start_time(pid: i32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    text[text.rfind(')')? + 2..].split(' ').nth(19)?.parse().ok()
}

/// Finds the living processes with the marker among their arguments.
fn find_marked(marker: &str) -> BTreeSet<ProcessKey> {
    let has = |pid: i32| {
        std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| String::from_utf8_lossy(&line).contains(marker))
    };
    let me = std::process::id() as i32;
    let key = |pid: i32| Some((pid, start_time(pid)?));
    proc::all_pids().into_iter().filter(|pid| *pid != me && has(*pid) && proc::is_alive(*pid)).filter_map(key).collect()
}

fn is_alive((pid, start): ProcessKey) -> bool {
    start_time(pid) == Some(start) && proc::is_alive(pid)
}

struct Tree {
    name: &'static str,
    /// `MARK` is replaced by the marker. Prints `up` when all members are started.
    script: String,
    /// The number of processes with the marker, including the shell at the top.
    size: usize,
}

fn all_trees() -> Vec<Tree> {
    // Each sleeper is a shell that does not exec, so that its arguments keep the marker.
    let sleeper = |prefix: &str| format!("sh -c '{prefix}while :; do sleep 1000; done; : MARK'");
    let stubborn = sleeper("trap \"\" TERM HUP INT; ");
    let plain = sleeper("");
    vec![
        Tree {
            name: "shell, child, grandchild with setsid",
            script: format!(
                "sh -c 'setsid sh -c \"while :; do sleep 1000; done; : MARK\" & while :; do sleep 1000; done; : MARK' & echo up; {plain} ; : MARK"
            ),
            size: 4,
        },
        Tree {
            name: "double-forked with env -i",
            script: format!(
                "(env -i /usr/bin/setsid /bin/{plain} </dev/null >/dev/null 2>&1 &) ; echo up; {plain} ; : MARK"
            ),
            size: 3,
        },
        Tree {
            name: "a daemon that respawns its child",
            // The parent, which is in a session of its own, starts each killed child again.
            script: format!(
                "setsid sh -c 'while :; do sh -c \"sleep 1000; : MARK\"; done; : MARK' </dev/null >/dev/null 2>&1 & echo up; {plain} ; : MARK"
            ),
            size: 4,
        },
        Tree {
            name: "members that ignore TERM and HUP",
            script: format!(
                "trap '' TERM HUP; setsid {stubborn} & {stubborn} & echo up; while :; do sleep 1000; done; : MARK"
            ),
            size: 3,
        },
    ]
}

impl Tree {
    fn spec(&self, marker: &str) -> Value {
        json!({ "command": self.script.replace("MARK", marker), "shell": true })
    }

    /// Waits until all members run.
    fn wait_running(&self, marker: &str) -> BTreeSet<ProcessKey> {
        eventually(self.name, || Some(find_marked(marker)).filter(|found| found.len() >= self.size))
    }
}

fn serve(cgroups: &str) -> Outlive {
    Outlive::start_with(Setup { arguments: vec!["--cgroups".into(), cgroups.into()], ..Setup::default() })
}

fn wait_gone(what: &str, marker: &str, members: &BTreeSet<ProcessKey>) {
    eventually(&format!("{what}: nothing is left"), || {
        (find_marked(marker).is_empty() && !members.iter().any(|member| is_alive(*member))).then_some(())
    });
}

/// Ends each kind of tree in every way that a process can be ended.
fn end_trees_in_every_way(cgroups: &str) {
    let outlive = serve(cgroups);
    for tree in all_trees() {
        for end in ["stop", "kill", "delete", "time limit"] {
            let marker = unique_marker();
            let mut spec = tree.spec(&marker);
            if end == "time limit" {
                spec["timeoutMs"] = json!(700);
            }
            let id = outlive.start_process(spec);
            outlive.wait_output(&id, "up");
            // With a time limit the tree may be gone before all of its members were seen.
            let members = if end == "time limit" { find_marked(&marker) } else { tree.wait_running(&marker) };
            let path = format!("/v1/processes/{id}");
            let what = format!("{end} of {} with cgroups {cgroups}", tree.name);
            let expected = match end {
                "stop" => {
                    let response =
                        outlive.http().send("POST", &format!("{path}/stop?graceMs=50&waitMs=30000"), &[], None);
                    assert_eq!(response.json["status"], "exited", "{what}: {}", response.text());
                    "stopped"
                }
                "kill" => {
                    let response = outlive.http().send("POST", &format!("{path}/kill?waitMs=30000"), &[], None);
                    assert_eq!(response.json["status"], "exited", "{what}: {}", response.text());
                    // The response is sent when the whole tree is gone.
                    assert_eq!(find_marked(&marker), BTreeSet::new(), "{what}");
                    "killed"
                }
                "delete" => {
                    let response = outlive.delete(&format!("{path}?force=true"));
                    assert_eq!(response.status, 204, "{what}: {}", response.text());
                    assert_eq!(find_marked(&marker), BTreeSet::new(), "{what}");
                    assert_eq!(outlive.get(&path).status, 404, "{what}");
                    ""
                }
                _ => "timedOut",
            };
            if !expected.is_empty() {
                assert_eq!(outlive.wait_exit(&id)["exitReason"], expected, "{what}");
            }
            wait_gone(&what, &marker, &members);
        }
    }
}

#[test]
fn stop_kill_delete_and_time_limit_kill_the_tree_with_cgroups() {
    end_trees_in_every_way("auto");
}

#[test]
fn stop_kill_delete_and_time_limit_kill_the_tree_without_cgroups() {
    end_trees_in_every_way("off");
}

fn time_out_runs(cgroups: &str) {
    let outlive = serve(cgroups);
    for tree in all_trees() {
        let marker = unique_marker();
        let mut spec = tree.spec(&marker);
        spec["timeoutMs"] = json!(600);
        let response = outlive.post("/v1/processes/run", &spec);
        assert_eq!(
            (response.status, &response.json["timedOut"]),
            (200, &json!(true)),
            "{}: {}",
            tree.name,
            response.text()
        );
        assert_eq!(
            (&response.json["stdout"], &response.json["exitCode"]),
            (&json!("up\n"), &Value::Null),
            "{}",
            tree.name
        );
        wait_gone(&format!("run of {} with cgroups {cgroups}", tree.name), &marker, &BTreeSet::new());
    }
    assert_eq!(outlive.get("/v1/processes?all=true").json["processes"], json!([]));
}

#[test]
fn a_run_that_times_out_kills_its_tree_with_cgroups() {
    time_out_runs("auto");
}

#[test]
fn a_run_that_times_out_kills_its_tree_without_cgroups() {
    time_out_runs("off");
}

/// The command exits at once and leaves a daemon with the marker, which the holder adopts.
const LEAVES_A_DAEMON: &str = "env -i /usr/bin/setsid /bin/sh -c 'trap \"\" TERM HUP; while :; do sleep 1000; done; : MARK' \
    </dev/null >/dev/null 2>&1 & echo up";

fn leave_daemon(outlive: &Outlive) -> (String, String, BTreeSet<ProcessKey>) {
    let marker = unique_marker();
    let id = outlive.start_shell(&LEAVES_A_DAEMON.replace("MARK", &marker));
    assert_eq!(outlive.wait_exit(&id)["exitCode"], 0);
    let members = eventually("the daemon", || {
        let found = find_marked(&marker);
        let adopted = |(pid, _): &ProcessKey| {
            proc::state_and_parent(*pid).is_some_and(|(_, parent)| parent == outlive.holder_pid())
        };
        // The shell at the top has the marker too until it exits.
        (found.len() == 1 && found.iter().all(adopted)).then_some(found)
    });
    (id, marker, members)
}

#[test]
fn killing_an_exited_process_kills_its_surviving_tree() {
    for cgroups in ["auto", "off"] {
        let outlive = serve(cgroups);
        let (id, marker, members) = leave_daemon(&outlive);
        let response = outlive.http().send("POST", &format!("/v1/processes/{id}/kill?waitMs=30000"), &[], None);
        assert_eq!(response.status, 200, "{}", response.text());
        assert_eq!(find_marked(&marker), BTreeSet::new(), "cgroups {cgroups}");
        wait_gone("the daemon", &marker, &members);
        // The recorded exit of the command itself does not change.
        let info = outlive.info(&id);
        assert_eq!((&info["exitCode"], &info["exitReason"]), (&json!(0), &json!("exited")));
    }
}

#[test]
fn a_forced_delete_of_an_exited_process_kills_its_surviving_tree() {
    for cgroups in ["auto", "off"] {
        let outlive = serve(cgroups);
        let (id, marker, members) = leave_daemon(&outlive);
        assert_eq!(outlive.delete(&format!("/v1/processes/{id}?force=true")).status, 204);
        wait_gone(&format!("the daemon, cgroups {cgroups}"), &marker, &members);
    }
}

#[test]
fn stopping_outlive_kills_every_tree() {
    for cgroups in ["auto", "off"] {
        let outlive = Outlive::start_with(Setup {
            arguments: ["--cgroups", cgroups, "--grace-ms", "200"].map(str::to_owned).to_vec(),
            ..Setup::default()
        });
        let (_, daemon_marker, daemon) = leave_daemon(&outlive);
        let mut all = vec![(daemon_marker, daemon)];
        for tree in all_trees() {
            let marker = unique_marker();
            let id = outlive.start_process(tree.spec(&marker));
            outlive.wait_output(&id, "up");
            let members = tree.wait_running(&marker);
            all.push((marker, members));
        }
        assert_eq!(outlive.stop(), 0);
        for (marker, members) in all {
            wait_gone("after the stop", &marker, &members);
        }
    }
}

#[test]
fn killing_one_tree_leaves_other_trees_alone() {
    let outlive = serve("off");
    let tree = &all_trees()[0];
    let (killed_marker, other_marker) = (unique_marker(), unique_marker());
    let other = outlive.start_process(tree.spec(&other_marker));
    let killed = outlive.start_process(tree.spec(&killed_marker));
    outlive.wait_output(&other, "up");
    outlive.wait_output(&killed, "up");
    let members = tree.wait_running(&other_marker);
    let killed_members = tree.wait_running(&killed_marker);
    outlive.http().send("POST", &format!("/v1/processes/{killed}/kill?waitMs=30000"), &[], None);
    wait_gone("the killed tree", &killed_marker, &killed_members);
    assert!(members.iter().all(|member| is_alive(*member)), "the other tree lost members");
    let listed = outlive.get(&format!("/v1/processes/{other}/tree")).json["processes"].clone();
    let pids: BTreeSet<i64> = listed.as_array().unwrap().iter().filter_map(|one| one["pid"].as_i64()).collect();
    for (pid, _) in members {
        assert!(pids.contains(&i64::from(pid)), "the tree lists all of its members: {listed}");
    }
}
