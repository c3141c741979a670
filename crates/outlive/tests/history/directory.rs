//! Directories that cannot be used: history is off with a reason, and programs run as ever.

use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use serde_json::{Value, json};

use crate::harness::{Outlive, Setup, eventually};
use crate::mounts::Mounted;
use crate::numbered_output::MB;
use crate::speed::read_with_gaps;
use crate::{history_state, paced_numbers, scratch_directory, serve, start};

/// Asserts that history is off, or failing for now, with a reason that contains `reason`, and that programs and their
/// output work.
fn assert_without_history(outlive: &Outlive, state: &str, reason: &str) {
    eventually(&format!("{reason:?} in the state of history"), || {
        let found = history_state(outlive);
        (found["state"] == state && found["reason"].as_str()?.contains(reason)).then_some(())
    });
    let health = outlive.get("/v1/health");
    assert_eq!((health.status, health.json["history"]["state"].as_str()), (200, Some(state)), "{}", health.text());
    let id = outlive.start_shell("echo works");
    outlive.wait_exit(&id);
    assert_eq!(outlive.output(&id), b"works\n");
    assert_eq!(outlive.get("/v1/processes?boot=current").status, 200);
}

fn start_server(directory: &Path) -> Outlive {
    start(directory, Setup::default())
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn only_the_owner_can_read_the_directory() {
    let scratch = scratch_directory();
    let directory = scratch.path().join("below/history");
    let outlive = serve(&directory);
    let id = outlive.start_shell("echo x");
    outlive.wait_exit(&id);
    let state = history_state(&outlive);
    assert_eq!((state["state"].as_str(), state["directory"].as_str()), (Some("on"), directory.to_str()), "{state}");
    assert_eq!(outlive.stop(), 0);
    assert_eq!(mode(&directory), 0o700);
    for path in crate::stored_files::list(&directory) {
        assert_eq!(mode(&path) & 0o077, 0, "{path:?}");
    }
}

#[test]
fn history_is_off_on_request() {
    assert_without_history(&start_server(Path::new("off")), "off", "turned off");
}

#[test]
fn a_second_server_with_the_same_directory_serves_without_history() {
    let scratch = scratch_directory();
    let directory = scratch.path().join("history");
    let first = serve(&directory);
    let second = start_server(&directory);
    assert_without_history(&second, "off", "used by another server");
    let id = first.start_shell("echo first");
    first.wait_exit(&id);
    assert_eq!(history_state(&first)["state"], "on");
    assert_eq!(second.get(&format!("/v1/processes/{id}")).status, 404);
    assert_eq!(first.stop(), 0);
    drop(second);
    let third = serve(&directory);
    assert_eq!(third.output(&id), b"first\n");
}

#[test]
fn a_link_in_place_of_the_directory_is_refused() {
    let scratch = scratch_directory();
    let (target, link) = (scratch.path().join("target"), scratch.path().join("link"));
    std::fs::create_dir(&target).unwrap();
    symlink(&target, &link).unwrap();
    assert_without_history(&start_server(&link), "off", "symbolic link");
    assert_eq!(std::fs::read_dir(&target).unwrap().count(), 0, "nothing was written through the link");
}

#[test]
fn a_file_in_place_of_the_directory_is_refused() {
    let scratch = scratch_directory();
    let file = scratch.path().join("file");
    std::fs::write(&file, "precious").unwrap();
    assert_without_history(&start_server(&file), "off", "not a directory");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "precious");
}

#[test]
fn a_directory_of_another_user_is_refused() {
    let scratch = scratch_directory();
    let directory = scratch.path().join("history");
    std::fs::create_dir(&directory).unwrap();
    if std::os::unix::fs::chown(&directory, Some(4242), Some(4242)).is_err() {
        println!("skipped: giving a directory away needs root");
        return;
    }
    assert_without_history(&start_server(&directory), "off", "belongs to user 4242");
    assert_eq!(
        (std::fs::read_dir(&directory).unwrap().count(), std::fs::metadata(&directory).unwrap().uid()),
        (0, 4242)
    );
}

#[test]
fn a_read_only_directory_is_refused() {
    let Some(mounted) = Mounted::read_only() else { return };
    assert_without_history(&start_server(mounted.path()), "off", "read-only");
}

#[test]
fn a_tmpfs_is_refused() {
    let Some(mounted) = Mounted::tmpfs() else { return };
    assert_without_history(&start_server(&mounted.path().join("history")), "off", "tmpfs");
}

/// Larger than what history leaves free, so that it can be full.
const DISK_BYTES: u64 = 1 << 30;

#[test]
fn a_full_disk_stops_history_and_not_the_program() {
    let Some(disk) = Mounted::ext4(DISK_BYTES) else { return };
    let outlive = serve(&disk.path().join("history"));
    let before = outlive.start_process(json!({ "command": "echo", "args": ["before"] }));
    outlive.wait_exit(&before);
    crate::wait_stored(&disk.path().join("history"), "before");
    let filler = disk.fill(256 << 10);
    let id = outlive.start_process(paced_numbers(25 * MB));
    assert_eq!(outlive.wait_exit(&id)["exitCode"], 0, "the program is unaffected");
    let reason = eventually("health says why", || reason_in_health(&outlive));
    assert!(reason.contains("free") || reason.contains("space"), "{reason}");
    // What neither memory nor the disk has is announced as missing.
    assert!(read_with_gaps(&outlive, &id, 25 * MB) > 0);
    assert_eq!(outlive.output(&before), b"before\n");
    // With room it stores again.
    std::fs::remove_file(filler).unwrap();
    eventually("history is on again", || {
        let after = outlive.start_process(json!({ "command": "echo", "args": ["after-marker"] }));
        outlive.wait_exit(&after);
        crate::stored_files::contain(&disk.path().join("history"), "after-marker").then_some(())
    });
    eventually("health says so", || reason_in_health(&outlive).is_none().then_some(()));
}

fn reason_in_health(outlive: &Outlive) -> Option<String> {
    let health: Value = outlive.get("/v1/health").json;
    health["history"]["reason"].as_str().map(str::to_owned)
}
