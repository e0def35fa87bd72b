//! What judging takes: time by the clock, CPU time of the thread that does it, memory.

use std::sync::LazyLock;
use std::time::Instant;

static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Seconds.
#[derive(Clone, Copy, Default)]
pub struct Time {
    pub clock: f64,
    /// Of this thread, on which all of a checker runs, the kernel's work for it included.
    pub cpu: f64,
}

impl Time {
    pub fn now() -> Self {
        Self { clock: START.elapsed().as_secs_f64(), cpu: cpu_seconds() }
    }

    pub fn since(self, began: Self) -> Self {
        Self { clock: self.clock - began.clock, cpu: self.cpu - began.cpu }
    }

    pub fn and(self, more: Self) -> Self {
        Self { clock: self.clock + more.clock, cpu: self.cpu + more.cpu }
    }

    pub fn least(self, other: Self) -> Self {
        Self { clock: self.clock.min(other.clock), cpu: self.cpu.min(other.cpu) }
    }
}

fn cpu_seconds() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a timespec of this frame; the clock id is a constant of the system.
    let failed = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) } != 0;
    assert!(!failed, "the system tells a thread's CPU time");
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Peak memory of this process, by the kernel's account, over what there was before.
pub struct Memory {
    kb: f64,
}

impl Memory {
    /// Has blocks of this size on taken from the system and given back at once. The allocator itself moves that
    /// limit, up to [`Self::MOST_KEPT`], with what was in use before; then memory that it keeps counts as well.
    pub fn give_back_from(bytes: i32) {
        #[cfg(target_env = "gnu")]
        {
            // SAFETY: it takes no pointer, and no other thread runs.
            let set = unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, bytes) };
            assert_eq!(set, 1, "the allocator takes the limit");
        }
        #[cfg(not(target_env = "gnu"))]
        let _ = bytes;
    }

    /// What the allocator comes to by itself once much was in use.
    pub const MOST_KEPT: i32 = 32 << 20;

    pub fn before() -> Self {
        give_back();
        Self { kb: field("VmRSS:") }
    }

    /// Forgets the peak so far, and gives back what was freed: memory that is there already would cost
    /// nothing, and that is had for a million calls sooner than for ten.
    pub fn forget_peak(&self) {
        give_back();
        std::fs::write("/proc/self/clear_refs", "5").expect("the kernel lets a process forget its peak");
    }

    /// Bytes by which the peak since it was forgotten is above what there was before.
    pub fn grown(&self) -> f64 {
        (field("VmHWM:") - self.kb).max(0.0) * 1024.0
    }
}

fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it takes no pointer, and gives back only what is not in use.
    unsafe {
        libc::malloc_trim(0);
    }
}

fn field(name: &str) -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix(name));
    line.and_then(|l| l.trim().trim_end_matches(" kB").parse().ok()).expect("a figure in kB")
}
