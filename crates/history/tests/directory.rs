//! Real directories: which ones are refused, and a file system that is full.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use outlive_history::directory::{Directory, DirectoryError};
use outlive_history::disk::{Disk, RealDisk};
use outlive_history::{Boot, ChunkMark, Limits, Piece, Store, Stream};

const LIMITS: Limits =
    Limits { max_bytes: 1 << 40, max_process_bytes: 1 << 40, max_age_ms: 1 << 40, min_free_bytes: 0 };

/// On a disk: a directory below /tmp may be in memory, which is refused.
fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn boot() -> Boot {
    Boot { id: "boot_1".to_owned(), started_at_ms: 1, last_write_at_ms: 1 }
}

fn code_of(path: &Path) -> &'static str {
    let error = Directory::open(path).expect_err("the directory is refused");
    assert!(error.to_string().contains(path.to_str().unwrap().trim_end_matches('/')), "{error}");
    error.code()
}

/// Opens a directory that was just closed. A child that a test in another thread forks has the lock too, until its exec.
fn reopen(path: &Path) -> Directory {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        match Directory::open(path) {
            Err(DirectoryError::Locked(_)) if Instant::now() < deadline => std::thread::yield_now(),
            opened => return opened.unwrap(),
        }
    }
}

fn append(store: &Store, offset: u64, bytes: &[u8]) -> std::io::Result<()> {
    let marks = [ChunkMark { sequence: offset + 1, offset, stream: Stream::Stdout, at_ms: 1 }];
    store.append(&Piece { process: "proc_1", offset, marks: &marks, bytes })
}

#[test]
fn a_directory_is_created_with_its_parents_and_is_private() {
    let scratch = scratch();
    let path = scratch.path().join("a/b/history");
    let directory = Directory::open(&path).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o700);
    assert_eq!(fs::metadata(path.join("lock")).unwrap().mode() & 0o777, 0o600);
    let store = Store::open(directory.into_disk().into(), LIMITS, boot()).unwrap();
    append(&store, 0, b"hello").unwrap();
    store.sync().unwrap();
    for entry in fs::read_dir(&path).unwrap() {
        assert_eq!(entry.unwrap().metadata().unwrap().mode() & 0o077, 0);
    }
    drop(store);
    let store = Store::open(reopen(&path).into_disk().into(), LIMITS, boot()).unwrap();
    assert_eq!(&store.block_at("proc_1", 0).unwrap().unwrap().bytes[..], b"hello");
}

#[test]
fn access_of_others_is_removed() {
    let scratch = scratch();
    let path = scratch.path().join("history");
    fs::create_dir(&path).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    Directory::open(&path).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o700);
}

#[test]
fn a_directory_of_something_else_is_refused_and_stays_open_to_others() {
    let scratch = scratch();
    let path = scratch.path().join("history");
    fs::create_dir(&path).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir(path.join("lost+found")).unwrap();
    fs::write(path.join("other"), "x").unwrap();
    assert_eq!(code_of(&path), "history_directory_not_a_history");
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o755);
    fs::remove_file(path.join("other")).unwrap();
    Directory::open(&path).unwrap();
}

#[test]
fn files_that_others_may_have_placed_are_refused() {
    let scratch = scratch();
    let path = scratch.path().join("history");
    let outside = scratch.path().join("outside");
    fs::write(&outside, "precious").unwrap();
    let disk = Directory::open(&path).unwrap().into_disk();
    fs::hard_link(&outside, path.join("7.raw")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        path.join("8.raw"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .unwrap();
    for name in ["7.raw", "8.raw"] {
        let error = disk.open(name, false).err().unwrap();
        assert!(error.to_string().contains(name), "{error}");
    }
    assert_eq!(fs::read(&outside).unwrap(), b"precious");
}

#[test]
fn a_second_server_is_refused_until_the_first_one_closes() {
    let scratch = scratch();
    let path = scratch.path().join("history");
    let store = Store::open(Directory::open(&path).unwrap().into_disk().into(), LIMITS, boot()).unwrap();
    assert_eq!(code_of(&path), "history_directory_locked");
    let message = Directory::open(&path).unwrap_err().to_string();
    assert!(message.contains("is used by another server"), "{message}");
    store.close().unwrap();
    drop(reopen(&path));
    assert!(append(&store, 0, b"late").is_err());
    assert!(store.block_at("proc_1", 0).is_err());
}

#[test]
fn a_link_is_not_followed() {
    let scratch = scratch();
    let target = scratch.path().join("target");
    fs::create_dir(&target).unwrap();
    let link = scratch.path().join("history");
    symlink(&target, &link).unwrap();
    assert_eq!(code_of(&link), "history_directory_is_link");
    // A slash at the end follows links in most programs.
    assert_eq!(code_of(&scratch.path().join("history/")), "history_directory_is_link");
    fs::remove_file(&link).unwrap();
    symlink(scratch.path().join("missing"), &link).unwrap();
    assert_eq!(code_of(&link), "history_directory_is_link");
    assert_eq!(fs::read_dir(&target).unwrap().count(), 0);
}

#[test]
fn a_link_in_place_of_a_file_is_not_followed() {
    let scratch = scratch();
    let path = scratch.path().join("history");
    let victim = scratch.path().join("victim");
    fs::write(&victim, "precious").unwrap();
    fs::create_dir(&path).unwrap();
    symlink(&victim, path.join("lock")).unwrap();
    Directory::open(&path).unwrap_err();
    fs::remove_file(path.join("lock")).unwrap();
    symlink(&victim, path.join("index.redb")).unwrap();
    assert!(Store::open(Directory::open(&path).unwrap().into_disk().into(), LIMITS, boot()).is_err());
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
}

#[test]
fn a_file_is_not_a_directory() {
    let scratch = scratch();
    let path = scratch.path().join("history");
    fs::write(&path, "").unwrap();
    assert_eq!(code_of(&path), "history_directory_not_a_directory");
}

#[test]
fn a_path_without_a_name_is_refused() {
    for path in ["/", "..", "."] {
        assert_eq!(Directory::open(Path::new(path)).unwrap_err().code(), "history_directory_unusable");
    }
}

#[test]
fn a_directory_of_another_user_is_refused() {
    if !is_root() {
        return;
    }
    let scratch = scratch();
    let path = scratch.path().join("history");
    fs::create_dir(&path).unwrap();
    std::os::unix::fs::chown(&path, Some(12345), Some(12345)).unwrap();
    assert_eq!(code_of(&path), "history_directory_not_owned");
    assert!(!path.join("lock").exists());
}

#[test]
fn a_directory_without_write_permission_is_refused() {
    if is_root() {
        // Root may write everywhere. The read-only file system below covers it.
        return;
    }
    let scratch = scratch();
    let path = scratch.path().join("history");
    fs::create_dir(&path).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o500)).unwrap();
    assert_eq!(code_of(&path), "history_directory_not_permitted");
}

/// Runs `test` in a thread with mounts of its own. False: this needs root.
fn with_private_mounts(test: impl FnOnce() + Send) -> bool {
    if !is_root() {
        return false;
    }
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            // SAFETY: the thread shares neither descriptors nor memory in a new way; only its mounts become private.
            let unshared = unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNS) };
            if unshared.is_err() || !run("mount", &["--make-rprivate", "/"]) {
                return false;
            }
            test();
            true
        });
        thread.join().expect("the test succeeds")
    })
}

fn run(program: &str, arguments: &[&str]) -> bool {
    Command::new(program).args(arguments).status().is_ok_and(|status| status.success())
}

fn mount_tmpfs(parent: &Path, options: &str) -> PathBuf {
    let path = parent.join("mounted");
    fs::create_dir(&path).unwrap();
    assert!(run("mount", &["-t", "tmpfs", "-o", options, "none", path.to_str().unwrap()]));
    path
}

#[test]
fn a_file_system_in_memory_is_refused_and_nothing_is_created() {
    let scratch = scratch();
    with_private_mounts(|| {
        let mounted = mount_tmpfs(scratch.path(), "size=2m,mode=0700");
        assert_eq!(code_of(&mounted), "history_directory_on_tmpfs");
        assert_eq!(code_of(&mounted.join("a/history")), "history_directory_on_tmpfs");
        assert!(!mounted.join("a").exists());
    });
}

#[test]
fn a_read_only_file_system_is_refused() {
    let scratch = scratch();
    let path = scratch.path().join("history");
    fs::create_dir(&path).unwrap();
    with_private_mounts(|| {
        let name = path.to_str().unwrap();
        assert!(run("mount", &["--bind", name, name]) && run("mount", &["-o", "remount,bind,ro", name]));
        assert_eq!(code_of(&path), "history_directory_read_only");
        assert_eq!(code_of(&path.join("below")), "history_directory_read_only");
    });
}

#[test]
fn a_full_file_system_refuses_appends_and_keeps_what_is_stored() {
    let scratch = scratch();
    with_private_mounts(|| {
        let mounted = mount_tmpfs(scratch.path(), "size=4m,mode=0700");
        let descriptor = || fs::File::open(&mounted).unwrap().into();
        let disk: Arc<dyn Disk> = Arc::new(RealDisk::new(descriptor(), None));
        let store = Store::open(disk, LIMITS, boot()).unwrap();
        let (mut offset, bytes) = (0, vec![b'x'; 100_000]);
        let error = loop {
            match append(&store, offset, &bytes) {
                Ok(()) => offset += bytes.len() as u64,
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
        assert!(append(&store, offset, &bytes).is_err());
        let stored = store.span("proc_1").unwrap().end.load(std::sync::atomic::Ordering::Relaxed);
        assert_eq!(stored, offset);
        drop(store);
        assert!(run("mount", &["-o", "remount,size=16m", mounted.to_str().unwrap()]));
        let store = Store::open(Arc::new(RealDisk::new(descriptor(), None)), LIMITS, boot()).unwrap();
        append(&store, offset, &bytes).unwrap();
        let mut read = 0;
        while let Some(block) = store.block_at("proc_1", read).unwrap() {
            assert_eq!(block.offset, read);
            read = block.end();
        }
        assert_eq!(read, offset + bytes.len() as u64);
    });
}

#[test]
fn each_refusal_has_a_code_of_its_own() {
    let path = PathBuf::from("/history");
    let other = || std::io::Error::other("broken");
    let errors = [
        DirectoryError::Locked(path.clone()),
        DirectoryError::NotOwned(path.clone(), 1),
        DirectoryError::IsLink(path.clone()),
        DirectoryError::NotADirectory(path.clone()),
        DirectoryError::ReadOnly(path.clone()),
        DirectoryError::NotPermitted(path.clone()),
        DirectoryError::OnTmpfs(path.clone()),
        DirectoryError::Full(path.clone()),
        DirectoryError::Unusable(path, other()),
    ];
    let codes: std::collections::BTreeSet<&str> = errors.iter().map(DirectoryError::code).collect();
    assert_eq!(codes.len(), errors.len());
    assert!(codes.iter().all(|code| code.starts_with("history_directory_")));
}
