//! Ranges of IP addresses, as written in the configuration: `10.20.0.0/16`, `2001:db8::/32`, or one address.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// A range in CIDR notation. An IPv4 address that is mapped into IPv6 counts as the IPv4 address that it stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IpRange {
    network: IpAddr,
    prefix_bits: u8,
}

/// Why a text is not a range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadIpRange {
    #[error("`{0}` is not an address range such as 10.20.0.0/16")]
    Malformed(String),
    #[error("`{range}` has more prefix bits than the address has ({max})")]
    PrefixTooLong { range: String, max: u8 },
    #[error("`{range}` has bits set beyond its prefix: did you mean `{meant}`?")]
    HostBitsSet { range: String, meant: IpRange },
    #[error("`{0}` is an IPv4 address mapped into IPv6: write the IPv4 range")]
    Mapped(String),
}

impl IpRange {
    pub const fn new(network: IpAddr, prefix_bits: u8) -> Self {
        Self { network, prefix_bits }
    }

    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.network, address.to_canonical()) {
            (IpAddr::V4(network), IpAddr::V4(address)) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.prefix_bits)).unwrap_or(0);
                (network.to_bits() ^ address.to_bits()) & mask == 0
            }
            (IpAddr::V6(network), IpAddr::V6(address)) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.prefix_bits)).unwrap_or(0);
                (network.to_bits() ^ address.to_bits()) & mask == 0
            }
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }

    /// The first address of the range, with the same prefix.
    fn first(self) -> Self {
        let network = match self.network {
            IpAddr::V4(network) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.prefix_bits)).unwrap_or(0);
                IpAddr::V4((network.to_bits() & mask).into())
            }
            IpAddr::V6(network) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.prefix_bits)).unwrap_or(0);
                IpAddr::V6((network.to_bits() & mask).into())
            }
        };
        Self { network, ..self }
    }
}

impl FromStr for IpRange {
    type Err = BadIpRange;

    fn from_str(text: &str) -> Result<Self, BadIpRange> {
        let malformed = || BadIpRange::Malformed(text.into());
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let network: IpAddr = address.parse().map_err(|_| malformed())?;
        if network.to_canonical() != network {
            return Err(BadIpRange::Mapped(text.into()));
        }
        let max = if network.is_ipv4() { 32 } else { 128 };
        let prefix_bits = match prefix {
            Some(digits) if !digits.bytes().all(|byte| byte.is_ascii_digit()) => return Err(malformed()),
            Some(digits) => digits.parse::<u8>().map_err(|_| malformed())?,
            None => max,
        };
        if prefix_bits > max {
            return Err(BadIpRange::PrefixTooLong { range: text.into(), max });
        }
        let range = Self { network, prefix_bits };
        let meant = range.first();
        if meant == range { Ok(range) } else { Err(BadIpRange::HostBitsSet { range: text.into(), meant }) }
    }
}

impl fmt::Display for IpRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.network, self.prefix_bits)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn range(text: &str) -> IpRange {
        text.parse().unwrap()
    }

    #[test]
    fn a_range_contains_its_first_and_last_address_only() {
        for (text, inside, outside) in [
            ("10.20.0.0/16", ["10.20.0.0", "10.20.255.255"], ["10.19.255.255", "10.21.0.0"]),
            ("192.0.2.7", ["192.0.2.7", "::ffff:192.0.2.7"], ["192.0.2.6", "::192.0.2.7"]),
            ("0.0.0.0/0", ["0.0.0.0", "255.255.255.255"], ["::", "2001:db8::1"]),
            ("2001:db8::/32", ["2001:db8::", "2001:db8:ffff::1"], ["2001:db9::", "192.0.2.1"]),
            ("::/0", ["::", "ffff::1"], ["0.0.0.0", "::ffff:1.2.3.4"]),
            ("fd00::/8", ["fd00::1", "fdff::1"], ["fc00::1", "fe00::1"]),
        ] {
            for address in inside {
                assert!(range(text).contains(address.parse().unwrap()), "{text} {address}");
            }
            for address in outside {
                assert!(!range(text).contains(address.parse().unwrap()), "{text} {address}");
            }
        }
    }

    #[test]
    fn a_bad_range_is_refused_with_its_reason() {
        for (text, says) in [
            ("10.20.0.0/33", "`10.20.0.0/33` has more prefix bits than the address has (32)"),
            ("::1/129", "`::1/129` has more prefix bits than the address has (128)"),
            ("10.20.1.0/16", "`10.20.1.0/16` has bits set beyond its prefix: did you mean `10.20.0.0/16`?"),
            ("::ffff:10.0.0.0/104", "`::ffff:10.0.0.0/104` is an IPv4 address mapped into IPv6: write the IPv4 range"),
        ] {
            assert_eq!(text.parse::<IpRange>().unwrap_err().to_string(), says);
        }
        for text in ["", "/8", "10.0.0.0/", "10.0.0.0/+8", "10.0.0.0/8/8", "10.0.0/8", "localhost", "10.0.0.0/999"] {
            assert!(matches!(text.parse::<IpRange>(), Err(BadIpRange::Malformed(_))), "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_range_contains_what_shares_its_prefix(network: u32, other: u32, bits in 0_u8..=32) {
            let range = IpRange::new(IpAddr::V4(network.into()), bits).first();
            let shared = (network ^ other).leading_zeros() >= u32::from(bits);
            prop_assert_eq!(range.contains(IpAddr::V4(other.into())), shared);
            prop_assert_eq!(range.to_string().parse::<IpRange>(), Ok(range));
        }
    }
}
