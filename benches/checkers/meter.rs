//! What judging takes: time by the clock, CPU time of the thread that does it, memory.

use std::sync::LazyLock;
use std::time::Instant;

use super::allocations;

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

/// Peak memory over what there was before.
pub struct Memory {
    bytes: usize,
}

impl Memory {
    pub fn before() -> Self {
        give_back();
        Self { bytes: allocations::now() }
    }

    /// Forgets the peak so far, and gives back what was freed: memory that is there already would cost
    /// nothing, and that is had for a million calls sooner than for ten.
    pub fn forget_peak(&self) {
        give_back();
        allocations::forget_peak();
    }

    /// Bytes by which the peak since it was forgotten is above what there was before.
    pub fn grown(&self) -> f64 {
        allocations::peak().saturating_sub(self.bytes) as f64
    }
}

fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it takes no pointer, and gives back only what is not in use.
    unsafe {
        libc::malloc_trim(0);
    }
}
