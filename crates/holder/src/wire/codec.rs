//! Encoding of message fields: little-endian numbers, length-prefixed byte strings, lists and structs.

/// A value that can be a field of a message.
pub(crate) trait Field: Sized {
    fn encode(&self, out: &mut Vec<u8>);
    /// Decodes the value at the start of `input` and advances `input`; `None` for invalid bytes.
    fn decode(input: &mut &[u8]) -> Option<Self>;
    /// The value to assume when an older peer did not send this field.
    fn missing() -> Self;
}

/// Encodes a struct behind its length, so that a decoder can skip fields that a newer peer added at the end, even
/// those of nested structs.
pub(crate) fn encode_framed(out: &mut Vec<u8>, fields: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    0u32.encode(out);
    fields(out);
    let len = (out.len() - start - size_of::<u32>()) as u32;
    out[start..start + size_of::<u32>()].copy_from_slice(&len.to_le_bytes());
}

/// Splits the bytes of one struct off `input`.
pub(crate) fn decode_frame<'a>(input: &mut &'a [u8]) -> Option<&'a [u8]> {
    let len = u32::decode(input)? as usize;
    split(input, len)
}

fn split<'a>(input: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (front, rest) = input.split_at_checked(count)?;
    *input = rest;
    Some(front)
}

macro_rules! number {
    ($($t:ty),*) => {$(
        impl Field for $t {
            fn encode(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }
            fn decode(input: &mut &[u8]) -> Option<Self> {
                split(input, size_of::<$t>())?.try_into().ok().map(<$t>::from_le_bytes)
            }
            fn missing() -> Self {
                0
            }
        }
    )*};
}
number!(u8, u16, u32, u64, i32);

impl Field for bool {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }
    fn decode(input: &mut &[u8]) -> Option<Self> {
        u8::decode(input).map(|byte| byte != 0)
    }
    fn missing() -> Self {
        false
    }
}

impl Field for Vec<u8> {
    fn encode(&self, out: &mut Vec<u8>) {
        (self.len() as u32).encode(out);
        out.extend_from_slice(self);
    }
    fn decode(input: &mut &[u8]) -> Option<Self> {
        let len = u32::decode(input)? as usize;
        split(input, len).map(<[u8]>::to_vec)
    }
    fn missing() -> Self {
        Vec::new()
    }
}

/// An element of a list. `u8` is none: byte strings have their own compact encoding.
pub(crate) trait ListItem: Field {}

impl<T: ListItem> Field for Vec<T> {
    fn encode(&self, out: &mut Vec<u8>) {
        (self.len() as u32).encode(out);
        for item in self {
            item.encode(out);
        }
    }
    fn decode(input: &mut &[u8]) -> Option<Self> {
        let len = u32::decode(input)? as usize;
        // Every item takes at least one byte, so a forged length cannot reserve memory.
        let mut items = Vec::with_capacity(len.min(input.len()));
        for _ in 0..len {
            items.push(T::decode(input)?);
        }
        Some(items)
    }
    fn missing() -> Self {
        Vec::new()
    }
}

impl ListItem for u32 {}
impl ListItem for u64 {}
impl ListItem for Vec<u8> {}

impl<T: Field> Field for Option<T> {
    fn encode(&self, out: &mut Vec<u8>) {
        self.is_some().encode(out);
        if let Some(value) = self {
            value.encode(out);
        }
    }
    fn decode(input: &mut &[u8]) -> Option<Self> {
        if bool::decode(input)? { T::decode(input).map(Some) } else { Some(None) }
    }
    fn missing() -> Self {
        None
    }
}

/// Decodes a field, or returns its default when the struct or message ends before it.
pub(crate) fn decode_or_missing<T: Field>(input: &mut &[u8]) -> Option<T> {
    if input.is_empty() { Some(T::missing()) } else { T::decode(input) }
}

/// Declares a struct whose fields are encoded in declaration order, behind their total length.
macro_rules! wire_struct {
    ($(#[$meta:meta])* pub struct $name:ident { $($(#[$fmeta:meta])* pub $field:ident: $type:ty,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $name { $($(#[$fmeta])* pub $field: $type,)* }

        impl $crate::wire::codec::Field for $name {
            fn encode(&self, out: &mut Vec<u8>) {
                $crate::wire::codec::encode_framed(out, |out| {
                    $($crate::wire::codec::Field::encode(&self.$field, out);)*
                });
            }
            fn decode(input: &mut &[u8]) -> Option<Self> {
                let input = &mut $crate::wire::codec::decode_frame(input)?;
                Some(Self { $($field: $crate::wire::codec::decode_or_missing(input)?,)* })
            }
            fn missing() -> Self {
                Self { $($field: <$type as $crate::wire::codec::Field>::missing(),)* }
            }
        }
    };
}

/// Declares the messages of one direction: number, name, body.
macro_rules! wire_messages {
    ($(#[$meta:meta])* pub enum $name:ident { $($(#[$vmeta:meta])* $number:literal $variant:ident($type:ty),)* }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum $name { $($(#[$vmeta])* $variant($type),)* }

        impl $name {
            pub fn encode(&self) -> Vec<u8> {
                let mut out = Vec::with_capacity(64);
                match self {
                    $(Self::$variant(body) => {
                        out.push($number);
                        $crate::wire::codec::Field::encode(body, &mut out);
                    })*
                }
                out
            }

            /// `None` for invalid bytes and for messages of a later version.
            pub fn decode(mut input: &[u8]) -> Option<Self> {
                let input = &mut input;
                match <u8 as $crate::wire::codec::Field>::decode(input)? {
                    $($number => Some(Self::$variant($crate::wire::codec::decode_or_missing(input)?)),)*
                    _ => None,
                }
            }
        }
    };
}
pub(crate) use {wire_messages, wire_struct};

impl Field for () {
    fn encode(&self, _: &mut Vec<u8>) {}
    fn decode(_: &mut &[u8]) -> Option<Self> {
        Some(())
    }
    fn missing() -> Self {}
}
