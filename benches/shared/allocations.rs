//! How much is taken from the allocator, at its peak, while something runs. The kernel's account of a process would move
//! with the size of its pages and with what it reclaims; here what is reserved counts, touched or not.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

static NOW: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

fn taken(bytes: usize) {
    let now = NOW.fetch_add(bytes, Relaxed) + bytes;
    PEAK.fetch_max(now, Relaxed);
}

// SAFETY: everything is handed on to the system's allocator as it came; only sizes are noted.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        taken(layout.size());
        // SAFETY: the caller's contract is the system allocator's own.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        taken(layout.size());
        // SAFETY: the caller's contract is the system allocator's own.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller's contract is the system allocator's own.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Pages of a large block are moved, not copied, so that it is never there twice.
        if size > layout.size() {
            taken(size - layout.size());
        } else {
            NOW.fetch_sub(layout.size() - size, Relaxed);
        }
        // SAFETY: the caller's contract is the system allocator's own.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

/// What is taken now.
pub fn now() -> usize {
    NOW.load(Relaxed)
}

/// The most that was taken since it was forgotten.
pub fn peak() -> usize {
    PEAK.load(Relaxed)
}

pub fn forget_peak() {
    PEAK.store(now(), Relaxed);
}
