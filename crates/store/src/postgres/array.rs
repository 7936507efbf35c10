//! A column of many rows on its way to the database: the array that a statement unnests. Room for all of it is made at
//! once; an array that grows as it is written is copied a dozen times until it has its size.

use std::fmt::Debug;

use bytes::{BufMut as _, BytesMut};
use tokio_postgres::types::{IsNull, Kind, ToSql, Type, to_sql_checked};

type Failed = Box<dyn std::error::Error + Sync + Send>;

/// Dimensions, whether there are nulls, the elements' type; then the one dimension's length and where it begins.
const HEAD_BYTES: usize = 20;
/// Before each value: how long it is.
const LENGTH_BYTES: usize = 4;
const NULL: i32 = -1;

/// What a column holds.
pub(super) trait Value: Debug {
    fn fits(ty: &Type) -> bool;
    /// How long it is on its way; none is null.
    fn bytes(&self) -> Option<usize>;
    fn put(&self, out: &mut BytesMut);
}

impl Value for i64 {
    fn fits(ty: &Type) -> bool {
        *ty == Type::INT8
    }

    fn bytes(&self) -> Option<usize> {
        Some(size_of::<Self>())
    }

    fn put(&self, out: &mut BytesMut) {
        out.put_i64(*self);
    }
}

impl Value for &[u8] {
    fn fits(ty: &Type) -> bool {
        *ty == Type::BYTEA
    }

    fn bytes(&self) -> Option<usize> {
        Some(self.len())
    }

    fn put(&self, out: &mut BytesMut) {
        out.put_slice(self);
    }
}

impl Value for &str {
    fn fits(ty: &Type) -> bool {
        *ty == Type::TEXT
    }

    fn bytes(&self) -> Option<usize> {
        Some(self.len())
    }

    fn put(&self, out: &mut BytesMut) {
        out.put_slice(self.as_bytes());
    }
}

impl<V: Value> Value for Option<V> {
    fn fits(ty: &Type) -> bool {
        V::fits(ty)
    }

    fn bytes(&self) -> Option<usize> {
        self.as_ref().and_then(V::bytes)
    }

    fn put(&self, out: &mut BytesMut) {
        if let Some(value) = self {
            value.put(out);
        }
    }
}

#[derive(Debug)]
pub(super) struct Column<V>(Vec<V>);

/// One value of each.
pub(super) fn column<'a, T: 'a, V: Value>(rows: impl IntoIterator<Item = &'a T>, of: impl Fn(&'a T) -> V) -> Column<V> {
    Column(rows.into_iter().map(of).collect())
}

impl<V: Value> ToSql for Column<V> {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, Failed> {
        let Kind::Array(element) = ty.kind() else { return Err(format!("{ty} is no array").into()) };
        let (mut room, mut nulls) = (HEAD_BYTES, false);
        for value in &self.0 {
            let bytes = value.bytes();
            nulls |= bytes.is_none();
            room += LENGTH_BYTES + bytes.unwrap_or(0);
        }
        out.reserve(room);
        out.put_i32(1);
        out.put_i32(i32::from(nulls));
        out.put_u32(element.oid());
        out.put_i32(i32::try_from(self.0.len())?);
        out.put_i32(1);
        for value in &self.0 {
            out.put_i32(value.bytes().map_or(Ok(NULL), i32::try_from)?);
            value.put(out);
        }
        Ok(IsNull::No)
    }

    fn accepts(ty: &Type) -> bool {
        matches!(ty.kind(), Kind::Array(element) if V::fits(element))
    }

    to_sql_checked!();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(value: &dyn ToSql, ty: &Type) -> Vec<u8> {
        let mut out = BytesMut::new();
        value.to_sql_checked(ty, &mut out).unwrap();
        out.to_vec()
    }

    /// Byte by byte what the driver's own arrays are.
    #[test]
    fn a_column_travels_as_the_array_that_it_is() {
        let numbers = [Some(1_i64), None, Some(i64::MIN)];
        assert_eq!(sent(&column(&numbers, |n| *n), &Type::INT8_ARRAY), sent(&numbers.as_slice(), &Type::INT8_ARRAY));
        let bytes: [&[u8]; 3] = [b"", b"\0a", &[255; 300]];
        assert_eq!(sent(&column(&bytes, |b| *b), &Type::BYTEA_ARRAY), sent(&bytes.as_slice(), &Type::BYTEA_ARRAY));
        let words = [Some("a"), Some(""), None];
        assert_eq!(sent(&column(&words, |w| *w), &Type::TEXT_ARRAY), sent(&words.as_slice(), &Type::TEXT_ARRAY));
        assert!(<Column<i64> as ToSql>::accepts(&Type::INT8_ARRAY));
        assert!(!<Column<i64> as ToSql>::accepts(&Type::TEXT_ARRAY) && !<Column<&str> as ToSql>::accepts(&Type::TEXT));
    }
}
