//! Packs the workspace into a tar archive and unpacks one into it. Symbolic links are kept and never followed.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Weak};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Timespec, Timestamps};
use tar::{Archive, Builder, EntryType, Header};

use super::workspace::Workspace;

/// An archive is packed completely before it is sent, and lies in a temporary file until then.
const MAX_ARCHIVE_BYTES: u64 = 1 << 30;
/// The mode bits that are kept. Owners are not kept, so files belong to the user who unpacks them.
const MODE_BITS: u32 = 0o777;

/// Held by the request for an archive. Dropping it cancels the work on the blocking thread.
#[derive(Default)]
pub(super) struct CancelOnDrop(Arc<()>);

pub(super) struct CancelToken(Weak<()>);

impl CancelOnDrop {
    pub(super) fn token(&self) -> CancelToken {
        CancelToken(Arc::downgrade(&self.0))
    }
}

impl CancelToken {
    fn check(&self) -> io::Result<()> {
        if self.0.strong_count() > 0 { Ok(()) } else { Err(io::Error::other("the request was cancelled")) }
    }
}

/// `./a/b/` becomes `a/b`.
pub(super) fn normalize(path: &str) -> PathBuf {
    Path::new(path).components().filter(|part| matches!(part, Component::Normal(_))).collect()
}

/// Writes the workspace without the excluded paths to `file`.
pub(super) fn pack(
    workspace: &Workspace,
    excludes: &[PathBuf],
    file: &File,
    cancelled: &CancelToken,
) -> io::Result<()> {
    let mut archive = Builder::new(BufWriter::new(LimitedWriter { file, left: MAX_ARCHIVE_BYTES }));
    let mut directories = vec![PathBuf::new()];
    while let Some(directory) = directories.pop() {
        let open =
            match workspace.open_at(&directory, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW, Mode::empty()) {
                // A directory may be removed while the workspace is packed.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                other => other?,
            };
        for item in Dir::read_from(&open)? {
            cancelled.check()?;
            let item = item?;
            let name = item.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            let path = directory.join(std::ffi::OsStr::from_bytes(name));
            if excludes.iter().any(|excluded| path.starts_with(excluded)) {
                continue;
            }
            match append(&mut archive, workspace, &open, &path) {
                Ok(true) => directories.push(path),
                Ok(false) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
    }
    archive.into_inner()?.into_inner().map_err(io::IntoInnerError::into_error)?;
    Ok(())
}

/// Appends one directory entry. Returns true for a directory.
fn append(
    archive: &mut Builder<impl Write>,
    workspace: &Workspace,
    directory: &OwnedFd,
    path: &Path,
) -> io::Result<bool> {
    let Some(name) = path.file_name() else { return Ok(false) };
    let stat = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
    let mut header = Header::new_gnu();
    header.set_mode(stat.st_mode & MODE_BITS);
    header.set_mtime(u64::try_from(stat.st_mtime).unwrap_or(0));
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => {
            header.set_entry_type(EntryType::Directory);
            header.set_size(0);
            archive.append_data(&mut header, path, io::empty())?;
            Ok(true)
        }
        FileType::Symlink => {
            let target = rustix::fs::readlinkat(directory, name, Vec::new())?;
            header.set_entry_type(EntryType::Symlink);
            header.set_size(0);
            archive.append_link(&mut header, path, std::ffi::OsStr::from_bytes(target.to_bytes()))?;
            Ok(false)
        }
        FileType::RegularFile => {
            let (file, _) = workspace.read(path)?;
            let bytes = file.metadata()?.size();
            header.set_size(bytes);
            // Exactly as many bytes as the header says, even if the file changes now: the next header follows.
            archive.append_data(&mut header, path, file.take(bytes).chain(io::repeat(0)).take(bytes))?;
            Ok(false)
        }
        // Sockets, pipes and devices are left out.
        _ => Ok(false),
    }
}

struct LimitedWriter<'a> {
    file: &'a File,
    left: u64,
}

impl Write for LimitedWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() as u64 > self.left {
            return Err(io::Error::other(format!("the workspace is larger than {MAX_ARCHIVE_BYTES} bytes")));
        }
        let written = self.file.write(bytes)?;
        self.left -= written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Unpacks an archive into the workspace. Files that the archive does not contain stay.
pub(super) fn unpack(workspace: &Workspace, archive: impl Read, cancelled: &CancelToken) -> io::Result<()> {
    let mut archive = Archive::new(BufReader::new(archive));
    for entry in archive.entries()? {
        cancelled.check()?;
        let mut entry = entry.map_err(|error| invalid(&format!("the body is not a tar archive: {error}")))?;
        let path = check_path(&entry.path()?)?;
        if path.as_os_str().is_empty() {
            continue;
        }
        let kind = entry.header().entry_type();
        if kind == EntryType::Directory {
            workspace.create_directories(&path)?;
            continue;
        }
        let destination = workspace.destination(&path)?;
        match kind {
            EntryType::Regular | EntryType::Continuous => {
                destination.clear()?;
                let mut file = destination.create_file()?;
                io::copy(&mut entry, &mut file)?;
                let mode = Mode::from_raw_mode(entry.header().mode()? & MODE_BITS);
                rustix::fs::fchmod(&file, mode)?;
                let at = Timespec { tv_sec: i64::try_from(entry.header().mtime()?).unwrap_or(0), tv_nsec: 0 };
                rustix::fs::futimens(&file, &Timestamps { last_access: at, last_modification: at })?;
            }
            EntryType::Symlink => {
                let target = entry.link_name()?.ok_or_else(|| invalid("a link has no target"))?;
                destination.clear()?;
                rustix::fs::symlinkat(&*target, &destination.directory, &destination.name)?;
            }
            EntryType::Link => {
                let target = entry.link_name()?.ok_or_else(|| invalid("a link has no target"))?;
                let target = workspace.destination(&check_path(&target)?)?;
                destination.clear()?;
                let (from, to) = (&target.directory, &destination.directory);
                rustix::fs::linkat(from, &target.name, to, &destination.name, AtFlags::empty())?;
            }
            other => return Err(invalid(&format!("{}: entries of type {other:?} are not supported", path.display()))),
        }
    }
    Ok(())
}

/// Rejects a path that is absolute or contains `..`.
fn check_path(path: &Path) -> io::Result<PathBuf> {
    let outside = || invalid(&format!("{} is outside the workspace", path.display()));
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => normal.push(name),
            Component::CurDir => {}
            _ => return Err(outside()),
        }
    }
    Ok(normal)
}

fn invalid(message: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message)
}

/// Unpacks the input, with a valid checksum in its first header: nothing is written outside the workspace.
#[cfg(any(fuzzing, test))]
pub(super) fn fuzz(data: &[u8]) {
    const HEADER_BYTES: usize = 512;
    const CHECKSUM: std::ops::Range<usize> = 148..156;
    const MAX_BYTES: usize = 64 * 1024;
    // Without a header nothing is unpacked. Other parsers get such inputs faster this way.
    if data.len() < HEADER_BYTES {
        return;
    }
    let mut archive = data[..data.len().min(MAX_BYTES)].to_vec();
    let header = &mut archive[..HEADER_BYTES];
    header[CHECKSUM].fill(b' ');
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[CHECKSUM].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    let root = std::env::temp_dir().join(format!("outlive-fuzz-{}", std::process::id()));
    let inside = root.join("inside");
    std::fs::create_dir_all(&inside).expect("a scratch directory");
    let cancel = CancelOnDrop::default();
    let workspace = Workspace::at(&inside).expect("a workspace");
    let _ = unpack(&workspace, &archive[..], &cancel.token());
    assert_eq!(std::fs::read_dir(&root).expect("the scratch directory").count(), 1);
    std::fs::remove_dir_all(&root).expect("the scratch directory can be removed");
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn packed(directory: &Path, excludes: &[&str]) -> Vec<u8> {
        let file = tempfile::tempfile().unwrap();
        let excludes: Vec<PathBuf> = excludes.iter().map(|path| normalize(path)).collect();
        let cancel = CancelOnDrop::default();
        pack(&Workspace::at(directory).unwrap(), &excludes, &file, &cancel.token()).unwrap();
        let mut bytes = Vec::new();
        io::Seek::rewind(&mut &file).unwrap();
        (&file).read_to_end(&mut bytes).unwrap();
        bytes
    }

    fn unpack_into(workspace: &Workspace, archive: &[u8]) -> io::Result<()> {
        let cancel = CancelOnDrop::default();
        unpack(workspace, archive, &cancel.token())
    }

    // Regression: the work continued after the client had disconnected.
    #[test]
    fn dropping_the_request_cancels_the_work() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::fs::write(from.path().join("a"), "A").unwrap();
        let archive = packed(from.path(), &[]);
        let cancelled = CancelOnDrop::default().token();
        assert!(unpack(&Workspace::at(to.path()).unwrap(), &archive[..], &cancelled).is_err());
        assert_eq!(std::fs::read_dir(to.path()).unwrap().count(), 0);
        let file = tempfile::tempfile().unwrap();
        assert!(pack(&Workspace::at(from.path()).unwrap(), &[], &file, &cancelled).is_err());
    }

    #[test]
    fn packing_and_unpacking_restores_the_files() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let long = format!("{}/{}", "n".repeat(150), "m".repeat(120));
        for (path, text) in [("a", "A"), ("sub/b", ""), (long.as_str(), "long"), ("skip/c", "C"), ("skipped-not", "D")]
        {
            let path = from.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        std::fs::set_permissions(from.path().join("a"), std::fs::Permissions::from_mode(0o755)).unwrap();
        symlink("/etc/passwd", from.path().join("out")).unwrap();
        // An existing link is replaced, not followed.
        let victim = to.path().join("victim");
        std::fs::write(&victim, "safe").unwrap();
        symlink("victim", to.path().join("a")).unwrap();
        unpack_into(&Workspace::at(to.path()).unwrap(), &packed(from.path(), &["./skip/"])[..]).unwrap();
        let read = |path: &str| std::fs::read_to_string(to.path().join(path)).unwrap();
        assert_eq!(
            (read("a"), read("sub/b"), read(&long), read("skipped-not")),
            ("A".into(), String::new(), "long".into(), "D".into())
        );
        assert_eq!(read("victim"), "safe");
        assert!(!to.path().join("skip").exists());
        assert_eq!(std::fs::read_link(to.path().join("out")).unwrap(), Path::new("/etc/passwd"));
        assert_eq!(std::fs::metadata(to.path().join("a")).unwrap().permissions().mode() & 0o777, 0o755);
    }

    fn archive_of(name: &str, kind: EntryType, target: Option<&str>) -> Vec<u8> {
        let mut header = Header::new_gnu();
        // Written by hand, because the library refuses to write such names.
        header.as_gnu_mut().unwrap().name[..name.len()].copy_from_slice(name.as_bytes());
        if let Some(target) = target {
            header.as_gnu_mut().unwrap().linkname[..target.len()].copy_from_slice(target.as_bytes());
        }
        header.set_entry_type(kind);
        header.set_mode(0o644);
        header.set_size(0);
        header.set_cksum();
        let mut bytes = header.as_bytes().to_vec();
        bytes.extend([0; 1024]);
        bytes
    }

    #[test]
    fn an_archive_cannot_write_outside_the_workspace() {
        let (inside, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        symlink(outside.path(), inside.path().join("exit")).unwrap();
        let workspace = Workspace::at(inside.path()).unwrap();
        for (name, kind, target) in [
            ("../x", EntryType::Regular, None),
            ("/x", EntryType::Regular, None),
            ("exit/x", EntryType::Regular, None),
            ("exit/x", EntryType::Directory, None),
            ("exit/x", EntryType::Symlink, Some("y")),
            ("x", EntryType::Link, Some("../../etc/passwd")),
            ("x", EntryType::Link, Some("exit/y")),
            ("x", EntryType::Char, None),
            ("x", EntryType::Fifo, None),
        ] {
            assert!(unpack_into(&workspace, &archive_of(name, kind, target)[..]).is_err(), "{name} {kind:?}");
        }
        assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0);
        for garbage in [&[1; 600][..], b"x", &[255; 2048]] {
            assert!(unpack_into(&workspace, garbage).is_err());
        }
        unpack_into(&workspace, &[0; 1024][..]).unwrap();
    }

    #[test]
    fn a_corrupt_archive_cannot_write_outside_the_workspace() {
        let (from, root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::fs::write(from.path().join("a"), "text").unwrap();
        symlink("a", from.path().join("link")).unwrap();
        let intact = packed(from.path(), &[]);
        let inside = root.path().join("inside");
        std::fs::create_dir(&inside).unwrap();
        let workspace = Workspace::at(&inside).unwrap();
        let mut random = 1_u64;
        for _ in 0..3_000 {
            let mut garbled = intact.clone();
            for _ in 0..3 {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let at = (random >> 33) as usize % garbled.len();
                garbled[at] = (random >> 25) as u8;
            }
            // With a valid checksum, corrupt bytes get further.
            let sum: u32 =
                garbled[..148].iter().chain([b' '; 8].iter()).chain(&garbled[156..512]).map(|b| u32::from(*b)).sum();
            garbled[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
            let _ = unpack_into(&workspace, &garbled[..]);
        }
        assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 1, "nothing next to the workspace");
    }
}
