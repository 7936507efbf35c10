//! A column of many rows on its way to the database: the array that a statement unnests, as its bytes travel. Room for all
//! of it is made at once: an array that grows as it is written is copied a dozen times until it has its size.

use bytes::{BufMut as _, BytesMut};
use tokio_postgres::types::{IsNull, Kind, ToSql, Type, to_sql_checked};

type Failed = Box<dyn std::error::Error + Sync + Send>;

/// Dimensions, whether there are nulls, the elements' type; then the one dimension's length and where it begins.
const HEAD_BYTES: usize = 20;
/// Before each value: how long it is.
const LENGTH_BYTES: usize = 4;
const NULL: i32 = -1;

/// What a column holds.
pub(crate) trait Value {
    const TYPE: Type;
    /// Of numbers: all are equally long.
    const FIXED_BYTES: Option<usize> = None;

    /// How long it is on its way; none is null.
    fn bytes(&self) -> Option<usize>;
    fn put(&self, out: &mut Vec<u8>);
}

impl Value for i64 {
    const TYPE: Type = Type::INT8;
    const FIXED_BYTES: Option<usize> = Some(size_of::<Self>());

    fn bytes(&self) -> Option<usize> {
        Self::FIXED_BYTES
    }

    fn put(&self, out: &mut Vec<u8>) {
        out.put_i64(*self);
    }
}

impl Value for &[u8] {
    const TYPE: Type = Type::BYTEA;

    fn bytes(&self) -> Option<usize> {
        Some(self.len())
    }

    fn put(&self, out: &mut Vec<u8>) {
        out.put_slice(self);
    }
}

impl Value for &str {
    const TYPE: Type = Type::TEXT;

    fn bytes(&self) -> Option<usize> {
        Some(self.len())
    }

    fn put(&self, out: &mut Vec<u8>) {
        out.put_slice(self.as_bytes());
    }
}

impl<V: Value> Value for Option<V> {
    const TYPE: Type = V::TYPE;
    const FIXED_BYTES: Option<usize> = V::FIXED_BYTES;

    fn bytes(&self) -> Option<usize> {
        self.as_ref().and_then(V::bytes)
    }

    fn put(&self, out: &mut Vec<u8>) {
        if let Some(value) = self {
            value.put(out);
        }
    }
}

#[derive(Debug)]
pub(crate) struct Column {
    element: Type,
    /// None of its values may be too long for an array.
    array: Result<Vec<u8>, std::num::TryFromIntError>,
}

/// One value of each.
pub(crate) fn column<'a, T: 'a, V: Value, R>(rows: R, of: impl Fn(&'a T) -> V) -> Column
where
    R: IntoIterator<Item = &'a T, IntoIter: Clone>,
{
    Column { element: V::TYPE, array: array(rows.into_iter(), of) }
}

fn array<'a, T: 'a, V: Value>(
    rows: impl Iterator<Item = &'a T> + Clone,
    of: impl Fn(&'a T) -> V,
) -> Result<Vec<u8>, std::num::TryFromIntError> {
    let values = match V::FIXED_BYTES {
        Some(each) => rows.size_hint().0 * each,
        None => rows.clone().map(|row| of(row).bytes().unwrap_or(0)).sum(),
    };
    let mut out = Vec::with_capacity(HEAD_BYTES + rows.size_hint().0 * LENGTH_BYTES + values);
    out.put_bytes(0, HEAD_BYTES);
    let (mut count, mut nulls) = (0_i32, 0_i32);
    for row in rows {
        let value = of(row);
        let bytes = value.bytes();
        nulls += i32::from(bytes.is_none());
        out.put_i32(bytes.map_or(Ok(NULL), i32::try_from)?);
        value.put(&mut out);
        count += 1;
    }
    let mut head = out.as_mut_slice();
    head.put_i32(1);
    head.put_i32(i32::from(nulls > 0));
    head.put_u32(V::TYPE.oid());
    head.put_i32(count);
    head.put_i32(1);
    Ok(out)
}

impl ToSql for Column {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, Failed> {
        // The driver's check only knows that this is an array.
        if !matches!(ty.kind(), Kind::Array(element) if *element == self.element) {
            return Err(format!("{ty} holds no {}", self.element).into());
        }
        out.extend_from_slice(&self.array.as_ref().map_err(Clone::clone)?);
        Ok(IsNull::No)
    }

    fn accepts(ty: &Type) -> bool {
        matches!(ty.kind(), Kind::Array(_))
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
    }

    #[test]
    fn a_column_of_another_type_is_an_error() {
        let mut out = BytesMut::new();
        let numbers = column(&[1_i64], |n| *n);
        assert!(numbers.to_sql_checked(&Type::TEXT_ARRAY, &mut out).is_err());
        assert!(numbers.to_sql_checked(&Type::INT8, &mut out).is_err());
    }
}
