//! The hash slot of a key on a Redis cluster.
//!
//! Source: the Redis cluster specification. CRC-16/XMODEM of the key, modulo 16,384; of what stands
//! between the first `{` and the next `}` alone, where there is something between them.

/// The slot, from 0 to 16,383.
pub fn slot(key: &[u8]) -> u16 {
    crc16(tag(key).unwrap_or(key)) % 16_384
}

/// The hash tag, if the key has one.
fn tag(key: &[u8]) -> Option<&[u8]> {
    let open = key.iter().position(|b| *b == b'{')?;
    let length = key[open + 1..].iter().position(|b| *b == b'}')?;
    (length > 0).then(|| &key[open + 1..open + 1 + length])
}

fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(*byte) << 8), |crc, _| {
            if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_that_a_server_tells() {
        assert_eq!(crc16(b"123456789"), 0x31C3, "the check value of CRC-16/XMODEM");
        assert_eq!(slot(b"rl:user:42:minute"), 1339);
        assert_eq!(slot(b"rl:user:42:day"), 2278);
        assert_eq!(slot(b"rl:{user:42}:minute"), 15880);
        assert_eq!(slot(b"rl:{user:42}:day"), 15880);
    }

    #[test]
    fn an_empty_or_open_tag_is_part_of_the_key() {
        assert_eq!(slot(b"{}user"), crc16(b"{}user") % 16_384);
        assert_eq!(slot(b"{user"), crc16(b"{user") % 16_384);
        assert_eq!(slot(b"a{b}{c}"), slot(b"b"));
    }
}
