//! A kill takes the whole tree, however its members tried to get away.

#![allow(clippy::unwrap_used, reason = "a test")]

mod harness;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

use harness::{Outlive, Setup, eventually, proc};
use serde_json::{Value, json};

/// A word that no other test has on a command line.
fn mark() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("tree{}x{}x", std::process::id(), COUNT.fetch_add(1, SeqCst))
}

/// Pid and start time, which together name a process for good.
type Name = (i32, u64);

fn start_time(pid: i32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    text[text.rfind(')')? + 2..].split(' ').nth(19)?.parse().ok()
}

/// Living processes with the mark among their arguments.
fn marked(mark: &str) -> BTreeSet<Name> {
    let has = |pid: i32| {
        std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| String::from_utf8_lossy(&line).contains(mark))
    };
    let me = std::process::id() as i32;
    let named = |pid: i32| Some((pid, start_time(pid)?));
    proc::all().into_iter().filter(|pid| *pid != me && has(*pid) && proc::is_alive(*pid)).filter_map(named).collect()
}

fn lives((pid, start): Name) -> bool {
    start_time(pid) == Some(start) && proc::is_alive(pid)
}

struct Tree {
    name: &'static str,
    /// `MARK` stands for the mark. Prints `up` when it stands.
    script: String,
    /// How many bear the mark then, the shell at the top included.
    size: usize,
}

fn trees() -> Vec<Tree> {
    // Each sleeper is a shell of its own that stays, so that its arguments bear the mark.
    let sleeper = |rest: &str| format!("sh -c '{rest}while :; do sleep 1000; done; : MARK'");
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
            name: "a daemon that respawns",
            // Each child, when killed, is started again by its parent, which is a session of its own.
            script: format!(
                "setsid sh -c 'while :; do sh -c \"sleep 1000; : MARK\"; done; : MARK' </dev/null >/dev/null 2>&1 & echo up; {plain} ; : MARK"
            ),
            size: 4,
        },
        Tree {
            name: "one that ignores TERM and HUP",
            script: format!(
                "trap '' TERM HUP; setsid {stubborn} & {stubborn} & echo up; while :; do sleep 1000; done; : MARK"
            ),
            size: 3,
        },
    ]
}

impl Tree {
    fn spec(&self, mark: &str) -> Value {
        json!({ "command": self.script.replace("MARK", mark), "shell": true })
    }

    /// Waits until all of it is there.
    fn standing(&self, mark: &str) -> BTreeSet<Name> {
        eventually(self.name, || Some(marked(mark)).filter(|found| found.len() >= self.size))
    }
}

fn serve(cgroups: &str) -> Outlive {
    Outlive::with(Setup { arguments: vec!["--cgroups".into(), cgroups.into()], ..Setup::default() })
}

fn expect_gone(what: &str, mark: &str, members: &BTreeSet<Name>) {
    eventually(&format!("{what}: nothing is left"), || {
        (marked(mark).is_empty() && !members.iter().any(|member| lives(*member))).then_some(())
    });
}

/// All ways to end a process.
fn every_end(cgroups: &str) {
    let outlive = serve(cgroups);
    for tree in trees() {
        for end in ["stop", "kill", "delete", "time limit"] {
            let mark = mark();
            let mut spec = tree.spec(&mark);
            if end == "time limit" {
                spec["timeoutMs"] = json!(700);
            }
            let id = outlive.start_process(spec);
            outlive.wait_output(&id, "up");
            // Under a time limit the tree may be gone before it was looked at in full.
            let members = if end == "time limit" { marked(&mark) } else { tree.standing(&mark) };
            let path = format!("/v1/processes/{id}");
            let what = format!("{end} of {} with cgroups {cgroups}", tree.name);
            let expected = match end {
                "stop" => {
                    let answer =
                        outlive.http().send("POST", &format!("{path}/stop?graceMs=50&waitMs=30000"), &[], None);
                    assert_eq!(answer.json["status"], "exited", "{what}: {}", answer.text());
                    "stopped"
                }
                "kill" => {
                    let answer = outlive.http().send("POST", &format!("{path}/kill?waitMs=30000"), &[], None);
                    assert_eq!(answer.json["status"], "exited", "{what}: {}", answer.text());
                    // The answer comes when the whole tree is gone.
                    assert_eq!(marked(&mark), BTreeSet::new(), "{what}");
                    "killed"
                }
                "delete" => {
                    let answer = outlive.delete(&format!("{path}?force=true"));
                    assert_eq!(answer.status, 204, "{what}: {}", answer.text());
                    assert_eq!(marked(&mark), BTreeSet::new(), "{what}");
                    assert_eq!(outlive.get(&path).status, 404, "{what}");
                    ""
                }
                _ => "timedOut",
            };
            if !expected.is_empty() {
                assert_eq!(outlive.wait_exit(&id)["exitReason"], expected, "{what}");
            }
            expect_gone(&what, &mark, &members);
        }
    }
}

#[test]
fn stop_kill_delete_and_time_limit_leave_nothing_with_cgroups_if_there_are() {
    every_end("auto");
}

#[test]
fn stop_kill_delete_and_time_limit_leave_nothing_without_cgroups() {
    every_end("off");
}

fn runs(cgroups: &str) {
    let outlive = serve(cgroups);
    for tree in trees() {
        let mark = mark();
        let mut spec = tree.spec(&mark);
        spec["timeoutMs"] = json!(600);
        let answer = outlive.post("/v1/processes/run", &spec);
        assert_eq!((answer.status, &answer.json["timedOut"]), (200, &json!(true)), "{}: {}", tree.name, answer.text());
        assert_eq!((&answer.json["stdout"], &answer.json["exitCode"]), (&json!("up\n"), &Value::Null), "{}", tree.name);
        expect_gone(&format!("run of {} with cgroups {cgroups}", tree.name), &mark, &BTreeSet::new());
    }
    assert_eq!(outlive.get("/v1/processes?all=true").json["processes"], json!([]));
}

#[test]
fn a_run_at_its_time_limit_leaves_nothing_with_cgroups_if_there_are() {
    runs("auto");
}

#[test]
fn a_run_at_its_time_limit_leaves_nothing_without_cgroups() {
    runs("off");
}

/// The command ends at once; what it left behind bears the mark, and its parent is the holder by then.
const LEAVES_A_DAEMON: &str = "env -i /usr/bin/setsid /bin/sh -c 'trap \"\" TERM HUP; while :; do sleep 1000; done; : MARK' \
    </dev/null >/dev/null 2>&1 & echo up";

fn left_behind(outlive: &Outlive) -> (String, String, BTreeSet<Name>) {
    let mark = mark();
    let id = outlive.shell(&LEAVES_A_DAEMON.replace("MARK", &mark));
    assert_eq!(outlive.wait_exit(&id)["exitCode"], 0);
    let members = eventually("the daemon", || {
        let found = marked(&mark);
        let adopted = |(pid, _): &Name| proc::stat(*pid).is_some_and(|(_, parent)| parent == outlive.holder_pid());
        // The shell at the top had the mark too until it ended.
        (found.len() == 1 && found.iter().all(adopted)).then_some(found)
    });
    (id, mark, members)
}

#[test]
fn killing_an_exited_process_whose_tree_lives_kills_the_rest() {
    for cgroups in ["auto", "off"] {
        let outlive = serve(cgroups);
        let (id, mark, members) = left_behind(&outlive);
        let answer = outlive.http().send("POST", &format!("/v1/processes/{id}/kill?waitMs=30000"), &[], None);
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(marked(&mark), BTreeSet::new(), "cgroups {cgroups}");
        expect_gone("the daemon", &mark, &members);
        // How the command itself ended does not change by that.
        let info = outlive.info(&id);
        assert_eq!((&info["exitCode"], &info["exitReason"]), (&json!(0), &json!("exited")));
    }
}

#[test]
fn a_forced_delete_of_an_exited_process_takes_its_tree() {
    for cgroups in ["auto", "off"] {
        let outlive = serve(cgroups);
        let (id, mark, members) = left_behind(&outlive);
        assert_eq!(outlive.delete(&format!("/v1/processes/{id}?force=true")).status, 204);
        expect_gone(&format!("the daemon, cgroups {cgroups}"), &mark, &members);
    }
}

#[test]
fn stopping_outlive_leaves_nothing_of_any_tree() {
    for cgroups in ["auto", "off"] {
        let outlive = Outlive::with(Setup {
            arguments: ["--cgroups", cgroups, "--grace-ms", "200"].map(str::to_owned).to_vec(),
            ..Setup::default()
        });
        let (_, daemon_mark, daemon) = left_behind(&outlive);
        let mut all = vec![(daemon_mark, daemon)];
        for tree in trees() {
            let mark = mark();
            let id = outlive.start_process(tree.spec(&mark));
            outlive.wait_output(&id, "up");
            let members = tree.standing(&mark);
            all.push((mark, members));
        }
        assert_eq!(outlive.stop(), 0);
        for (mark, members) in all {
            expect_gone("after the stop", &mark, &members);
        }
    }
}

#[test]
fn the_kill_of_one_tree_harms_no_other() {
    let outlive = serve("off");
    let tree = &trees()[0];
    let (doomed_mark, other_mark) = (mark(), mark());
    let other = outlive.start_process(tree.spec(&other_mark));
    let doomed = outlive.start_process(tree.spec(&doomed_mark));
    outlive.wait_output(&other, "up");
    outlive.wait_output(&doomed, "up");
    let members = tree.standing(&other_mark);
    let doomed_members = tree.standing(&doomed_mark);
    outlive.http().send("POST", &format!("/v1/processes/{doomed}/kill?waitMs=30000"), &[], None);
    expect_gone("the doomed one", &doomed_mark, &doomed_members);
    assert!(members.iter().all(|member| lives(*member)), "a neighbour lost some of its tree");
    let listed = outlive.get(&format!("/v1/processes/{other}/tree")).json["processes"].clone();
    let pids: BTreeSet<i64> = listed.as_array().unwrap().iter().filter_map(|one| one["pid"].as_i64()).collect();
    for (pid, _) in members {
        assert!(pids.contains(&i64::from(pid)), "the tree lists all of its members: {listed}");
    }
}
