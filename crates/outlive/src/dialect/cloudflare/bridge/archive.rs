//! The workspace as a tar archive, out of it and into it. Nothing is followed: links are kept as links.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Weak};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Timespec, Timestamps};
use tar::{Archive, Builder, EntryType, Header};

use super::workspace::Workspace;

/// An archive is made whole before it is sent, and has to lie somewhere until then.
const MOST_BYTES: u64 = 1 << 30;
/// Of the mode of a file; whose it was is not kept, so nothing becomes somebody else's.
const MODE_BITS: u32 = 0o777;

/// Kept by whoever asked for an archive: when it is dropped, the work ends.
#[derive(Default)]
pub(super) struct Asking(Arc<()>);

pub(super) struct Asked(Weak<()>);

impl Asking {
    pub(super) fn asked(&self) -> Asked {
        Asked(Arc::downgrade(&self.0))
    }
}

impl Asked {
    fn still(&self) -> io::Result<()> {
        if self.0.strong_count() > 0 { Ok(()) } else { Err(io::Error::other("nobody waits for it any more")) }
    }
}

/// `./a/b/` is `a/b`.
pub(super) fn plain(path: &str) -> PathBuf {
    Path::new(path).components().filter(|part| matches!(part, Component::Normal(_))).collect()
}

/// Writes all that is in the workspace, except for some.
pub(super) fn pack(workspace: &Workspace, without: &[PathBuf], file: &File, asked: &Asked) -> io::Result<()> {
    let mut archive = Builder::new(BufWriter::new(Limited { file, left: MOST_BYTES }));
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        let open =
            match workspace.open_at(&folder, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW, Mode::empty()) {
                // Things come and go while we look.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                other => other?,
            };
        for item in Dir::read_from(&open)? {
            asked.still()?;
            let item = item?;
            let name = item.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            let path = folder.join(std::ffi::OsStr::from_bytes(name));
            if without.iter().any(|excluded| path.starts_with(excluded)) {
                continue;
            }
            match add(&mut archive, workspace, &open, &path) {
                Ok(true) => folders.push(path),
                Ok(false) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
    }
    archive.into_inner()?.into_inner().map_err(io::IntoInnerError::into_error)?;
    Ok(())
}

/// Adds one thing; true for a folder.
fn add(
    archive: &mut Builder<impl Write>,
    workspace: &Workspace,
    folder: &std::os::fd::OwnedFd,
    path: &Path,
) -> io::Result<bool> {
    let Some(name) = path.file_name() else { return Ok(false) };
    let about = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
    let mut header = Header::new_gnu();
    header.set_mode(about.st_mode & MODE_BITS);
    header.set_mtime(u64::try_from(about.st_mtime).unwrap_or(0));
    match FileType::from_raw_mode(about.st_mode) {
        FileType::Directory => {
            header.set_entry_type(EntryType::Directory);
            header.set_size(0);
            archive.append_data(&mut header, path, io::empty())?;
            Ok(true)
        }
        FileType::Symlink => {
            let target = rustix::fs::readlinkat(folder, name, Vec::new())?;
            header.set_entry_type(EntryType::Symlink);
            header.set_size(0);
            archive.append_link(&mut header, path, std::ffi::OsStr::from_bytes(target.to_bytes()))?;
            Ok(false)
        }
        FileType::RegularFile => {
            let (file, _) = workspace.read(path)?;
            let bytes = file.metadata()?.size();
            header.set_size(bytes);
            // As many as were said, whatever happens to the file meanwhile: the rest of the archive depends on it.
            archive.append_data(&mut header, path, file.take(bytes).chain(io::repeat(0)).take(bytes))?;
            Ok(false)
        }
        // Sockets, pipes and devices are nothing to keep.
        _ => Ok(false),
    }
}

struct Limited<'a> {
    file: &'a File,
    left: u64,
}

impl Write for Limited<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() as u64 > self.left {
            return Err(io::Error::other(format!("the workspace is larger than {MOST_BYTES} bytes")));
        }
        let written = self.file.write(bytes)?;
        self.left -= written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Puts what an archive has into the workspace; what else is there stays.
pub(super) fn unpack(workspace: &Workspace, archive: impl Read, asked: &Asked) -> io::Result<()> {
    let mut archive = Archive::new(BufReader::new(archive));
    for entry in archive.entries()? {
        asked.still()?;
        let mut entry = entry.map_err(|error| wrong(&format!("this is no archive: {error}")))?;
        let path = inside(&entry.path()?)?;
        if path.as_os_str().is_empty() {
            continue;
        }
        let kind = entry.header().entry_type();
        if kind == EntryType::Directory {
            workspace.make_folders(&path)?;
            continue;
        }
        let spot = workspace.spot(&path)?;
        match kind {
            EntryType::Regular | EntryType::Continuous => {
                spot.clear()?;
                let mut file = spot.new_file()?;
                io::copy(&mut entry, &mut file)?;
                let mode = Mode::from_raw_mode(entry.header().mode()? & MODE_BITS);
                rustix::fs::fchmod(&file, mode)?;
                let at = Timespec { tv_sec: i64::try_from(entry.header().mtime()?).unwrap_or(0), tv_nsec: 0 };
                rustix::fs::futimens(&file, &Timestamps { last_access: at, last_modification: at })?;
            }
            EntryType::Symlink => {
                let target = entry.link_name()?.ok_or_else(|| wrong("a link without a target"))?;
                spot.clear()?;
                rustix::fs::symlinkat(&*target, &spot.folder, &spot.name)?;
            }
            EntryType::Link => {
                let target = entry.link_name()?.ok_or_else(|| wrong("a link without a target"))?;
                let target = workspace.spot(&inside(&target)?)?;
                spot.clear()?;
                rustix::fs::linkat(&target.folder, &target.name, &spot.folder, &spot.name, AtFlags::empty())?;
            }
            other => return Err(wrong(&format!("{}: entries of type {other:?} are not taken", path.display()))),
        }
    }
    Ok(())
}

/// A path of the archive that stays in the workspace.
fn inside(path: &Path) -> io::Result<PathBuf> {
    let leads_out = || wrong(&format!("{} leads out of the workspace", path.display()));
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => plain.push(name),
            Component::CurDir => {}
            _ => return Err(leads_out()),
        }
    }
    Ok(plain)
}

fn wrong(message: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn packed(folder: &Path, without: &[&str]) -> Vec<u8> {
        let file = tempfile::tempfile().unwrap();
        let without: Vec<PathBuf> = without.iter().map(|path| plain(path)).collect();
        pack(&Workspace::at(folder).unwrap(), &without, &file, &Asking::default().asked()).unwrap();
        let mut bytes = Vec::new();
        io::Seek::rewind(&mut &file).unwrap();
        (&file).read_to_end(&mut bytes).unwrap();
        bytes
    }

    fn unpacked(workspace: &Workspace, archive: &[u8]) -> io::Result<()> {
        unpack(workspace, archive, &Asking::default().asked())
    }

    #[test]
    fn archives_went_on_without_anybody_who_waited() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::fs::write(from.path().join("a"), "A").unwrap();
        let archive = packed(from.path(), &[]);
        let gone = Asking::default().asked();
        assert!(unpack(&Workspace::at(to.path()).unwrap(), &archive[..], &gone).is_err());
        assert_eq!(std::fs::read_dir(to.path()).unwrap().count(), 0);
        let file = tempfile::tempfile().unwrap();
        assert!(pack(&Workspace::at(from.path()).unwrap(), &[], &file, &gone).is_err());
    }

    #[test]
    fn what_was_packed_comes_out_again() {
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
        // What lies there already is replaced, and a link is not written through.
        let victim = to.path().join("victim");
        std::fs::write(&victim, "safe").unwrap();
        symlink("victim", to.path().join("a")).unwrap();
        unpacked(&Workspace::at(to.path()).unwrap(), &packed(from.path(), &["./skip/"])[..]).unwrap();
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
        // As an attacker would: the library refuses to write such names.
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
    fn archives_do_not_reach_out_of_the_workspace() {
        let (inside, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        symlink(outside.path(), inside.path().join("door")).unwrap();
        let workspace = Workspace::at(inside.path()).unwrap();
        for (name, kind, target) in [
            ("../x", EntryType::Regular, None),
            ("/x", EntryType::Regular, None),
            ("door/x", EntryType::Regular, None),
            ("door/x", EntryType::Directory, None),
            ("door/x", EntryType::Symlink, Some("y")),
            ("x", EntryType::Link, Some("../../etc/passwd")),
            ("x", EntryType::Link, Some("door/y")),
            ("x", EntryType::Char, None),
            ("x", EntryType::Fifo, None),
        ] {
            assert!(unpacked(&workspace, &archive_of(name, kind, target)[..]).is_err(), "{name} {kind:?}");
        }
        assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0);
        for garbage in [&[1; 600][..], b"x", &[255; 2048]] {
            assert!(unpacked(&workspace, garbage).is_err());
        }
        unpacked(&workspace, &[0; 1024][..]).unwrap();
    }

    #[test]
    fn archives_with_wrong_bytes_harm_nobody() {
        let (from, root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::fs::write(from.path().join("a"), "text").unwrap();
        symlink("a", from.path().join("link")).unwrap();
        let whole = packed(from.path(), &[]);
        let inside = root.path().join("inside");
        std::fs::create_dir(&inside).unwrap();
        let workspace = Workspace::at(&inside).unwrap();
        let mut random = 1_u64;
        for _ in 0..3_000 {
            let mut garbled = whole.clone();
            for _ in 0..3 {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let at = (random >> 33) as usize % garbled.len();
                garbled[at] = (random >> 25) as u8;
            }
            // With a sum that fits, wrong bytes get further.
            let sum: u32 =
                garbled[..148].iter().chain([b' '; 8].iter()).chain(&garbled[156..512]).map(|b| u32::from(*b)).sum();
            garbled[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
            let _ = unpacked(&workspace, &garbled[..]);
        }
        assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 1, "nothing beside the workspace");
    }
}
