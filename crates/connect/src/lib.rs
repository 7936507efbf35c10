//! Where work comes from and goes to. Every HTTP request that the product sends to the outside goes through
//! [`Outbound`], which reaches only public addresses and those that the deployment allows.

mod outbound;

pub use outbound::{
    BadOutboundUrl, CheckedAddress, Outbound, OutboundAnswer, OutboundError, OutboundRequest, OutboundUrl,
    URL_MAX_BYTES,
};
