//! Which cores there are for this process, and staying on one of them.

/// The cores this process may use, by their numbers; none where the system does not say.
pub fn usable() -> Vec<usize> {
    // SAFETY: a cpu_set_t is plain bits, for which zero is a value.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a set of this frame, and its size is the one given.
    let failed = unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set) } != 0;
    if failed {
        return Vec::new();
    }
    // SAFETY: the number is below the set's size.
    (0..libc::CPU_SETSIZE as usize).filter(|core| unsafe { libc::CPU_ISSET(*core, &set) }).collect()
}

/// Keeps the calling thread on a core. Where that is not allowed it runs where it may.
pub fn stay_on(core: usize) {
    if core >= libc::CPU_SETSIZE as usize {
        return;
    }
    // SAFETY: a cpu_set_t is plain bits, for which zero is a value.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the number is below the set's size.
    unsafe { libc::CPU_SET(core, &mut set) };
    // SAFETY: the pointer is to a set of this frame, and its size is the one given.
    let _ = unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set) };
}
