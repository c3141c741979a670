//! System calls that touch nothing but registers.
//!
//! The child runs in the holder's memory beside the holder: even writing `errno`, as libc's wrappers do, would
//! be a race. So the few calls it needs are made here.

#[cfg(target_arch = "x86_64")]
#[inline]
pub(super) unsafe fn call(number: libc::c_long, a: usize, b: usize, c: usize, d: usize) -> isize {
    let result: isize;
    // SAFETY: the caller vouches for the arguments; the kernel clobbers only rcx and r11.
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d,
            // prctl insists on zeros behind its arguments.
            in("r8") 0usize,
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    result
}

#[cfg(target_arch = "aarch64")]
#[inline]
pub(super) unsafe fn call(number: libc::c_long, a: usize, b: usize, c: usize, d: usize) -> isize {
    let result: isize;
    // SAFETY: the caller vouches for the arguments.
    unsafe {
        std::arch::asm!(
            "svc 0",
            in("x8") number,
            inlateout("x0") a => result,
            in("x1") b, in("x2") c, in("x3") d,
            // prctl insists on zeros behind its arguments.
            in("x4") 0usize,
            options(nostack),
        );
    }
    result
}
