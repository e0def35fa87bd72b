//! An archive of a few small files, as an engine takes what is to be put into a container.
//!
//! Format: POSIX.1-1988 (ustar), the header of which is 512 bytes of fields in octal digits.

const BLOCK: usize = 512;

/// Files with absolute paths of up to 99 bytes, readable for everybody.
pub fn of(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut archive = Vec::new();
    for (path, content) in files {
        archive.extend(header(path.trim_start_matches('/'), content.len()));
        archive.extend_from_slice(content);
        archive.resize(archive.len().next_multiple_of(BLOCK), 0);
    }
    // Two empty blocks end it.
    archive.resize(archive.len() + 2 * BLOCK, 0);
    archive
}

fn header(path: &str, size: usize) -> [u8; BLOCK] {
    let mut block = [0; BLOCK];
    let mut put = |at: usize, text: &[u8]| block[at..at + text.len()].copy_from_slice(text);
    put(0, path.as_bytes());
    put(100, b"0000644\0");
    // Owner, group and time of the last change: 0.
    put(108, b"0000000\0");
    put(116, b"0000000\0");
    put(124, format!("{size:011o}\0").as_bytes());
    put(136, b"00000000000\0");
    // The sum is of the block with blanks in place of the sum.
    put(148, b"        ");
    put(156, b"0");
    put(257, b"ustar\x0000");
    let sum: u32 = block.iter().map(|&b| u32::from(b)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    block
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tar_reads_what_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let long = vec![7; 1500];
        let archive = of(&[("/data/empty", b""), ("/one", b"text\n"), ("/long.so", &long)]);
        assert!(archive.len().is_multiple_of(BLOCK));
        let file = folder.path().join("a.tar");
        std::fs::write(&file, archive).unwrap();
        let tar =
            std::process::Command::new("tar").arg("-xf").arg(&file).arg("-C").arg(folder.path()).output();
        let tar = tar.unwrap();
        assert!(tar.status.success(), "{}", String::from_utf8_lossy(&tar.stderr));
        let read = |name: &str| std::fs::read(folder.path().join(name)).unwrap();
        assert_eq!((read("data/empty"), read("one"), read("long.so")), (vec![], b"text\n".to_vec(), long));
    }
}
