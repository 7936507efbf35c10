//! A stable hash: the same on every machine, in every build, after every restart.

/// FNV-1a of 64 bits, with a last mixing step so that short texts fill the whole range.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fnv(u64);

impl Fnv {
    pub(crate) fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    /// Without the final mixing step, for values stored before it existed.
    pub(crate) fn plain(self) -> u64 {
        self.0
    }

    pub(crate) fn finish(self) -> u64 {
        let mixed = (self.0 ^ (self.0 >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed ^ (mixed >> 29)
    }
}

#[cfg(test)]
mod tests {
    use super::Fnv;

    #[test]
    fn the_fixed_hash_is_stable() {
        let mut hash = Fnv::new();
        hash.write(b"KeyError: 'temperature'");
        assert_eq!(hash.finish(), 13_492_484_574_905_533_103);
    }
}
