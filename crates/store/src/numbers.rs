//! Conversions between counts of this process and the database's integers.

/// A limit of a statement. The largest one means that there is none.
pub(crate) fn limit<N: TryInto<i64>>(most: N) -> i64 {
    most.try_into().unwrap_or(i64::MAX)
}

/// A count as the database stores it; it always fits.
pub(crate) fn signed<N: TryInto<i64>>(count: N) -> i64 {
    let signed = count.try_into();
    debug_assert!(signed.is_ok(), "a count past i64");
    signed.unwrap_or(i64::MAX)
}

/// A count that the database returned.
pub(crate) fn counted<N: TryInto<usize>>(count: N) -> usize {
    let counted = count.try_into();
    debug_assert!(counted.is_ok(), "a negative count");
    counted.unwrap_or(0)
}
