//! Room for many values that are read far apart, in large pages where the system has some: to find a page takes as
//! long as to read what is in it, and of ten million calls no two that belong together share one.

/// Makes room for exactly so many more.
pub fn reserve_exact<T>(values: &mut Vec<T>, more: usize) {
    values.reserve_exact(more);
    let spare = values.spare_capacity_mut();
    #[cfg(target_os = "linux")]
    {
        const LARGE: usize = 2 << 20;
        let bytes = size_of_val(spare);
        let begin = spare.as_mut_ptr().addr();
        let inner = begin.next_multiple_of(LARGE)..(begin + bytes) / LARGE * LARGE;
        if !inner.is_empty() {
            // SAFETY: advice about whole pages within the vector's own memory, which changes nothing in them. Whether
            // it is taken is not asked.
            unsafe {
                libc::madvise(
                    std::ptr::without_provenance_mut(inner.start),
                    inner.len(),
                    libc::MADV_HUGEPAGE,
                );
            }
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = spare;
}
