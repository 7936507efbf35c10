//! Which addresses the product may send requests to: public ones, and those that the deployment allows by range.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::ip_range::IpRange;

/// What an address is for, if it is not a public one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpecialUse {
    Unspecified,
    Loopback,
    Private,
    LinkLocal,
    /// 100.64.0.0/10, behind a provider's NAT.
    SharedNat,
    /// A cloud's metadata service, which hands out credentials.
    Metadata,
    Multicast,
    Broadcast,
    Documentation,
    Benchmark,
    /// An IPv6 address that stands for an IPv4 address: mapped, compatible, translated (NAT64) or tunnelled (6to4, Teredo, ISATAP).
    EmbeddedIpv4,
    Reserved,
}

impl fmt::Display for SpecialUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unspecified => "an unspecified address",
            Self::Loopback => "a loopback address",
            Self::Private => "a private address",
            Self::LinkLocal => "a link-local address",
            Self::SharedNat => "a shared address behind a provider's NAT",
            Self::Metadata => "the address of a cloud's metadata service",
            Self::Multicast => "a multicast address",
            Self::Broadcast => "a broadcast address",
            Self::Documentation => "an address for documentation",
            Self::Benchmark => "an address for benchmarks",
            Self::EmbeddedIpv4 => "an IPv6 address that stands for an IPv4 address",
            Self::Reserved => "a reserved address",
        })
    }
}

type V4Row = (Ipv4Addr, u8, SpecialUse);
type V6Row = (Ipv6Addr, u8, SpecialUse);

/// From the IANA registry of special-purpose IPv4 addresses; the first match counts.
const SPECIAL_V4: [V4Row; 20] = [
    (Ipv4Addr::new(169, 254, 169, 254), 32, SpecialUse::Metadata),
    // AWS: credentials of a container.
    (Ipv4Addr::new(169, 254, 170, 2), 32, SpecialUse::Metadata),
    // Alibaba Cloud.
    (Ipv4Addr::new(100, 100, 100, 200), 32, SpecialUse::Metadata),
    // Oracle Cloud.
    (Ipv4Addr::new(192, 0, 0, 192), 32, SpecialUse::Metadata),
    // Azure; the one in public address space.
    (Ipv4Addr::new(168, 63, 129, 16), 32, SpecialUse::Metadata),
    (Ipv4Addr::UNSPECIFIED, 32, SpecialUse::Unspecified),
    (Ipv4Addr::UNSPECIFIED, 8, SpecialUse::Reserved),
    (Ipv4Addr::new(10, 0, 0, 0), 8, SpecialUse::Private),
    (Ipv4Addr::new(100, 64, 0, 0), 10, SpecialUse::SharedNat),
    (Ipv4Addr::new(127, 0, 0, 0), 8, SpecialUse::Loopback),
    (Ipv4Addr::new(169, 254, 0, 0), 16, SpecialUse::LinkLocal),
    (Ipv4Addr::new(172, 16, 0, 0), 12, SpecialUse::Private),
    (Ipv4Addr::new(192, 0, 0, 0), 24, SpecialUse::Reserved),
    (Ipv4Addr::new(192, 0, 2, 0), 24, SpecialUse::Documentation),
    (Ipv4Addr::new(192, 88, 99, 0), 24, SpecialUse::Reserved),
    (Ipv4Addr::new(192, 168, 0, 0), 16, SpecialUse::Private),
    (Ipv4Addr::new(198, 18, 0, 0), 15, SpecialUse::Benchmark),
    (Ipv4Addr::new(198, 51, 100, 0), 24, SpecialUse::Documentation),
    (Ipv4Addr::new(203, 0, 113, 0), 24, SpecialUse::Documentation),
    (Ipv4Addr::new(224, 0, 0, 0), 4, SpecialUse::Multicast),
];

/// The same for IPv6. Beyond this list, only 2000::/3 is public.
const SPECIAL_V6: [V6Row; 19] = [
    (Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254), 128, SpecialUse::Metadata),
    (Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254), 128, SpecialUse::Metadata),
    (Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0xa9fe, 0xa9fe), 128, SpecialUse::Metadata),
    (Ipv6Addr::UNSPECIFIED, 128, SpecialUse::Unspecified),
    (Ipv6Addr::LOCALHOST, 128, SpecialUse::Loopback),
    // IPv4-compatible, mapped, and translated by SIIT.
    (Ipv6Addr::UNSPECIFIED, 80, SpecialUse::EmbeddedIpv4),
    (Ipv6Addr::new(0, 0, 0, 0, 0xffff, 0, 0, 0), 96, SpecialUse::EmbeddedIpv4),
    // NAT64: the well-known prefix and those for local use.
    (Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0), 96, SpecialUse::EmbeddedIpv4),
    (Ipv6Addr::new(0x64, 0xff9b, 1, 0, 0, 0, 0, 0), 48, SpecialUse::EmbeddedIpv4),
    // Teredo and 6to4.
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 32, SpecialUse::EmbeddedIpv4),
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16, SpecialUse::EmbeddedIpv4),
    (Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, 0), 48, SpecialUse::Benchmark),
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23, SpecialUse::Reserved),
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32, SpecialUse::Documentation),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20, SpecialUse::Documentation),
    (Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0), 7, SpecialUse::Private),
    (Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0), 10, SpecialUse::LinkLocal),
    // Site-local, from before unique local addresses.
    (Ipv6Addr::new(0xfec0, 0, 0, 0, 0, 0, 0, 0), 10, SpecialUse::Private),
    (Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0), 8, SpecialUse::Multicast),
];

const PUBLIC_V6: IpRange = IpRange::new(IpAddr::V6(Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0)), 3);

/// The special use of an address; none for a public one.
pub fn special_use(address: IpAddr) -> Option<SpecialUse> {
    match address {
        IpAddr::V4(v4) => special_use_v4(v4),
        IpAddr::V6(v6) => special_use_v6(v6),
    }
}

fn special_use_v4(address: Ipv4Addr) -> Option<SpecialUse> {
    if address.is_broadcast() {
        return Some(SpecialUse::Broadcast);
    }
    let within = |row: &&V4Row| IpRange::new(IpAddr::V4(row.0), row.1).contains(IpAddr::V4(address));
    let listed = SPECIAL_V4.iter().find(within).map(|row| row.2);
    // 240.0.0.0/4 was never assigned.
    listed.or_else(|| (address.octets()[0] >= 240).then_some(SpecialUse::Reserved))
}

fn special_use_v6(address: Ipv6Addr) -> Option<SpecialUse> {
    if address.to_ipv4_mapped().is_some() || is_isatap(address) {
        return Some(SpecialUse::EmbeddedIpv4);
    }
    let within = |row: &&V6Row| IpRange::new(IpAddr::V6(row.0), row.1).contains(IpAddr::V6(address));
    let listed = SPECIAL_V6.iter().find(within).map(|row| row.2);
    listed.or_else(|| (!PUBLIC_V6.contains(IpAddr::V6(address))).then_some(SpecialUse::Reserved))
}

/// An interface id `0:5efe:a.b.c.d` tunnels to that IPv4 address under any prefix.
fn is_isatap(address: Ipv6Addr) -> bool {
    let segments = address.segments();
    matches!(segments[4], 0 | 0x200) && segments[5] == 0x5efe
}

/// The IPv4 address that a translator or a tunnel sends to.
fn embedded_v4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let s = address.segments();
    let v4 = |high: u16, low: u16| Some(Ipv4Addr::from_bits((u32::from(high) << 16) | u32::from(low)));
    match s {
        [0, 0, 0, 0, 0, 0, high, low] if high != 0 => v4(high, low),
        [0, 0, 0, 0, 0xffff, 0, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => v4(high, low),
        [0x2002, high, low, ..] => v4(high, low),
        [_, _, _, _, 0 | 0x200, 0x5efe, high, low] => v4(high, low),
        _ => None,
    }
}

/// An address that must not be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{address} is {special_use}, and no range in `[outbound] allow` contains it")]
pub struct RefusedAddress {
    pub address: IpAddr,
    pub special_use: SpecialUse,
}

/// Public addresses, and the ranges that the deployment allows beside them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OutboundPolicy {
    allow: Vec<IpRange>,
}

impl OutboundPolicy {
    pub fn new(allow: Vec<IpRange>) -> Self {
        Self { allow }
    }

    /// For addresses that the configuration itself names and so trusts.
    pub fn any_address() -> Self {
        let (v4, v6) = (IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED));
        Self { allow: vec![IpRange::new(v4, 0), IpRange::new(v6, 0)] }
    }

    /// A range for an IPv6 translator allows only what the embedded IPv4 address may reach as well.
    pub fn check(&self, address: IpAddr) -> Result<(), RefusedAddress> {
        let Some(special_use) = special_use(address) else { return Ok(()) };
        let refused = RefusedAddress { address, special_use };
        if !self.allow.iter().any(|range| range.contains(address)) {
            return Err(refused);
        }
        match address {
            IpAddr::V6(v6) => match embedded_v4(v6) {
                Some(v4) => self.check(IpAddr::V4(v4)).map_err(|_| refused),
                None => Ok(()),
            },
            IpAddr::V4(_) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn allowing(ranges: &[&str]) -> OutboundPolicy {
        OutboundPolicy::new(ranges.iter().map(|range| range.parse().unwrap()).collect())
    }

    #[test]
    fn every_special_address_is_recognised() {
        for (address, special_use) in [
            ("0.0.0.0", SpecialUse::Unspecified),
            ("0.1.2.3", SpecialUse::Reserved),
            ("10.0.0.0", SpecialUse::Private),
            ("10.255.255.255", SpecialUse::Private),
            ("100.64.0.1", SpecialUse::SharedNat),
            ("100.127.255.255", SpecialUse::SharedNat),
            ("100.100.100.200", SpecialUse::Metadata),
            ("127.0.0.1", SpecialUse::Loopback),
            ("127.255.255.254", SpecialUse::Loopback),
            ("168.63.129.16", SpecialUse::Metadata),
            ("169.254.0.1", SpecialUse::LinkLocal),
            ("169.254.169.254", SpecialUse::Metadata),
            ("169.254.170.2", SpecialUse::Metadata),
            ("172.16.0.1", SpecialUse::Private),
            ("172.31.255.255", SpecialUse::Private),
            ("192.0.0.1", SpecialUse::Reserved),
            ("192.0.0.192", SpecialUse::Metadata),
            ("192.0.2.1", SpecialUse::Documentation),
            ("192.88.99.1", SpecialUse::Reserved),
            ("192.168.255.255", SpecialUse::Private),
            ("198.18.0.1", SpecialUse::Benchmark),
            ("198.19.255.255", SpecialUse::Benchmark),
            ("198.51.100.1", SpecialUse::Documentation),
            ("203.0.113.255", SpecialUse::Documentation),
            ("224.0.0.1", SpecialUse::Multicast),
            ("239.255.255.255", SpecialUse::Multicast),
            ("240.0.0.1", SpecialUse::Reserved),
            ("255.255.255.254", SpecialUse::Reserved),
            ("255.255.255.255", SpecialUse::Broadcast),
            ("::", SpecialUse::Unspecified),
            ("::1", SpecialUse::Loopback),
            ("::2", SpecialUse::EmbeddedIpv4),
            ("::127.0.0.1", SpecialUse::EmbeddedIpv4),
            ("::8.8.8.8", SpecialUse::EmbeddedIpv4),
            ("::ffff:127.0.0.1", SpecialUse::EmbeddedIpv4),
            ("::ffff:8.8.8.8", SpecialUse::EmbeddedIpv4),
            ("::ffff:0:127.0.0.1", SpecialUse::EmbeddedIpv4),
            ("64:ff9b::7f00:1", SpecialUse::EmbeddedIpv4),
            ("64:ff9b::808:808", SpecialUse::EmbeddedIpv4),
            ("64:ff9b:1::a00:1", SpecialUse::EmbeddedIpv4),
            ("100::1", SpecialUse::Reserved),
            ("2001::1", SpecialUse::EmbeddedIpv4),
            ("2001:0:7f00:1::", SpecialUse::EmbeddedIpv4),
            ("2001:2::1", SpecialUse::Benchmark),
            ("2001:10::1", SpecialUse::Reserved),
            ("2001:20::1", SpecialUse::Reserved),
            ("2001:db8::1", SpecialUse::Documentation),
            ("2002:7f00:1::", SpecialUse::EmbeddedIpv4),
            ("2002:a9fe:a9fe::", SpecialUse::EmbeddedIpv4),
            ("2606:4700::5efe:7f00:1", SpecialUse::EmbeddedIpv4),
            ("2606:4700:0:0:200:5efe:a00:1", SpecialUse::EmbeddedIpv4),
            ("3fff::1", SpecialUse::Documentation),
            ("4000::1", SpecialUse::Reserved),
            ("5f00::1", SpecialUse::Reserved),
            ("fc00::1", SpecialUse::Private),
            ("fd00::1", SpecialUse::Private),
            ("fd00:ec2::254", SpecialUse::Metadata),
            ("fd20:ce::254", SpecialUse::Metadata),
            ("fe80::1", SpecialUse::LinkLocal),
            ("fe80::a9fe:a9fe", SpecialUse::Metadata),
            ("febf::1", SpecialUse::LinkLocal),
            ("fec0::1", SpecialUse::Private),
            ("ff02::1", SpecialUse::Multicast),
        ] {
            let refused = RefusedAddress { address: ip(address), special_use };
            assert_eq!(OutboundPolicy::default().check(ip(address)), Err(refused), "{address}");
        }
    }

    #[test]
    fn public_addresses_beside_special_ranges_are_reached() {
        for address in [
            "1.1.1.1",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.0",
            "168.63.129.15",
            "169.253.255.255",
            "169.255.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "192.0.1.0",
            "192.0.3.0",
            "192.167.255.255",
            "192.169.0.0",
            "198.17.255.255",
            "198.20.0.0",
            "223.255.255.255",
            "2000::1",
            "2001:200::1",
            "2001:db7:ffff::1",
            "2001:db9::1",
            "2003::1",
            "2606:4700:4700::1111",
            "3ffe::1",
        ] {
            assert_eq!(OutboundPolicy::default().check(ip(address)), Ok(()), "{address}");
        }
    }

    #[test]
    fn an_allowed_range_opens_itself_and_nothing_else() {
        let policy = allowing(&["10.20.0.0/16", "127.0.0.1"]);
        for address in ["10.20.0.1", "10.20.255.255", "127.0.0.1", "::ffff:10.20.0.1", "1.1.1.1"] {
            assert_eq!(policy.check(ip(address)), Ok(()), "{address}");
        }
        for address in ["10.21.0.1", "127.0.0.2", "::1", "::127.0.0.1", "64:ff9b::7f00:1", "169.254.169.254"] {
            assert!(policy.check(ip(address)).is_err(), "{address}");
        }
    }

    #[test]
    fn a_translator_range_opens_no_private_ipv4_address() {
        let policy = allowing(&["64:ff9b::/96", "2002::/16", "::/96"]);
        for address in ["64:ff9b::808:808", "2002:808:808::1", "::8.8.8.8"] {
            assert_eq!(policy.check(ip(address)), Ok(()), "{address}");
        }
        for address in ["64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "2002:a00:1::1", "::127.0.0.1"] {
            assert!(policy.check(ip(address)).is_err(), "{address}");
        }
        assert_eq!(allowing(&["64:ff9b::/96", "10.0.0.0/8"]).check(ip("64:ff9b::a00:1")), Ok(()));
    }

    #[test]
    fn a_trusted_address_may_be_anything() {
        for address in ["127.0.0.1", "::1", "10.0.0.1", "fd00::1", "1.1.1.1", "::ffff:127.0.0.1", "64:ff9b::7f00:1"] {
            assert_eq!(OutboundPolicy::any_address().check(ip(address)), Ok(()), "{address}");
        }
    }

    proptest! {
        /// The standard library knows most special ranges too: what it names is never public here.
        #[test]
        fn no_special_ipv4_address_is_public(bits: u32) {
            let v4 = Ipv4Addr::from_bits(bits);
            let special = v4.is_loopback() || v4.is_private() || v4.is_link_local() || v4.is_multicast()
                || v4.is_broadcast() || v4.is_documentation() || v4.is_unspecified();
            let public = OutboundPolicy::default().check(IpAddr::V4(v4)).is_ok();
            prop_assert!(!(special && public), "{}", v4);
            // Every IPv6 form of an IPv4 address is refused by default, public or not.
            for v6 in [v4.to_ipv6_mapped(), v4.to_ipv6_compatible()] {
                prop_assert!(OutboundPolicy::default().check(IpAddr::V6(v6)).is_err(), "{}", v6);
            }
        }

        #[test]
        fn no_special_ipv6_address_is_public(bits: u128, prefix in 0_usize..6) {
            let heads: [u128; 6] = [0, 0xfc00 << 112, 0xfe80 << 112, 0xff00 << 112, 0x2002 << 112, 0x2001_0db8 << 96];
            let v6 = Ipv6Addr::from_bits(heads[prefix] | (bits >> if prefix == 0 { 0 } else { 32 }));
            let special = v6.is_loopback() || v6.is_unspecified() || v6.is_unique_local()
                || v6.is_unicast_link_local() || v6.is_multicast() || !PUBLIC_V6.contains(IpAddr::V6(v6));
            prop_assert!(!(special && OutboundPolicy::default().check(IpAddr::V6(v6)).is_ok()), "{}", v6);
        }
    }
}
