//! The only unsafe part of the log: a shared mapping, accessed as atomic words and as a buffer for read(2).

use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

pub(super) struct Map {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping is accessed only through atomics, or through raw pointers given to the kernel.
unsafe impl Send for Map {}
// SAFETY: as above; no `&mut` to the mapped bytes is ever made.
unsafe impl Sync for Map {}

impl Map {
    /// Maps the first `len` bytes of a memfd that is sealed against shrinking.
    pub(super) fn new(file: BorrowedFd<'_>, len: usize) -> io::Result<Self> {
        // SAFETY: a fresh mapping chosen by the kernel; it overlaps nothing.
        let start =
            unsafe { mmap(std::ptr::null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, file, 0) }?;
        let start = NonNull::new(start.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, len })
    }

    /// The 64-bit word at byte `at`. Positions outside of the map give the last word, which no field uses.
    pub(super) fn word(&self, at: usize) -> &AtomicU64 {
        let at = at.min(self.len - 8) & !7;
        #[expect(clippy::cast_ptr_alignment, reason = "the map is page-aligned and `at` a multiple of 8")]
        // SAFETY: in bounds, 8-byte aligned (the map is page-aligned), alive as long as `self`, and every
        // access to these bytes from any process is atomic.
        unsafe {
            AtomicU64::from_ptr(self.start.as_ptr().add(at).cast::<u64>())
        }
    }

    /// Reads from `source` into the bytes `at .. at + len` of the map.
    pub(super) fn read_into(&self, source: BorrowedFd<'_>, at: usize, len: usize) -> rustix::io::Result<usize> {
        let at = at.min(self.len);
        let len = len.min(self.len - at);
        // SAFETY: the range lies inside the mapping, which the kernel may write; Rust keeps no reference to it.
        // MaybeUninit<u8> asserts nothing about the contents. Other processes read them by `pread` only.
        let buffer = unsafe {
            std::slice::from_raw_parts_mut(self.start.as_ptr().add(at).cast::<std::mem::MaybeUninit<u8>>(), len)
        };
        rustix::io::read(source, buffer).map(|(filled, _)| filled.len())
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: start and len are those of the mapping created in `new`.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
    }
}
