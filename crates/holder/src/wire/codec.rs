//! Fields to bytes and back.

/// A value that can be a field of a message.
pub(crate) trait Field: Sized {
    fn put(&self, out: &mut Vec<u8>);
    /// `None` when the bytes do not hold such a value.
    fn take(input: &mut &[u8]) -> Option<Self>;
    /// What a peer means that does not know this field yet.
    fn absent() -> Self;
}

/// The bytes of a struct stand behind their length: what a newer peer added at its end can be skipped, wherever
/// the struct is.
pub(crate) fn put_framed(out: &mut Vec<u8>, fields: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    0u32.put(out);
    fields(out);
    let len = (out.len() - start - size_of::<u32>()) as u32;
    out[start..start + size_of::<u32>()].copy_from_slice(&len.to_le_bytes());
}

/// The bytes of one struct, cut out of `input`.
pub(crate) fn take_frame<'a>(input: &mut &'a [u8]) -> Option<&'a [u8]> {
    let len = u32::take(input)? as usize;
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
            fn put(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }
            fn take(input: &mut &[u8]) -> Option<Self> {
                split(input, size_of::<$t>())?.try_into().ok().map(<$t>::from_le_bytes)
            }
            fn absent() -> Self {
                0
            }
        }
    )*};
}
number!(u8, u16, u32, u64, i32);

impl Field for bool {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }
    fn take(input: &mut &[u8]) -> Option<Self> {
        u8::take(input).map(|byte| byte != 0)
    }
    fn absent() -> Self {
        false
    }
}

impl Field for Vec<u8> {
    fn put(&self, out: &mut Vec<u8>) {
        (self.len() as u32).put(out);
        out.extend_from_slice(self);
    }
    fn take(input: &mut &[u8]) -> Option<Self> {
        let len = u32::take(input)? as usize;
        split(input, len).map(<[u8]>::to_vec)
    }
    fn absent() -> Self {
        Vec::new()
    }
}

/// Lists of anything but bytes, which have their own compact form.
pub(crate) trait Item: Field {}

impl<T: Item> Field for Vec<T> {
    fn put(&self, out: &mut Vec<u8>) {
        (self.len() as u32).put(out);
        for item in self {
            item.put(out);
        }
    }
    fn take(input: &mut &[u8]) -> Option<Self> {
        let len = u32::take(input)? as usize;
        // Every item takes at least one byte: a made-up length cannot reserve memory.
        let mut items = Vec::with_capacity(len.min(input.len()));
        for _ in 0..len {
            items.push(T::take(input)?);
        }
        Some(items)
    }
    fn absent() -> Self {
        Vec::new()
    }
}

impl Item for u32 {}
impl Item for u64 {}
impl Item for Vec<u8> {}

impl<T: Field> Field for Option<T> {
    fn put(&self, out: &mut Vec<u8>) {
        self.is_some().put(out);
        if let Some(value) = self {
            value.put(out);
        }
    }
    fn take(input: &mut &[u8]) -> Option<Self> {
        if bool::take(input)? { T::take(input).map(Some) } else { Some(None) }
    }
    fn absent() -> Self {
        None
    }
}

/// Takes a field, or its meaning when the struct or message ends before it.
pub(crate) fn take_or_absent<T: Field>(input: &mut &[u8]) -> Option<T> {
    if input.is_empty() { Some(T::absent()) } else { T::take(input) }
}

/// Declares a struct whose fields go over the wire in the order written, behind their length.
macro_rules! wire_struct {
    ($(#[$meta:meta])* pub struct $name:ident { $($(#[$fmeta:meta])* pub $field:ident: $type:ty,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $name { $($(#[$fmeta])* pub $field: $type,)* }

        impl $crate::wire::codec::Field for $name {
            fn put(&self, out: &mut Vec<u8>) {
                $crate::wire::codec::put_framed(out, |out| {
                    $($crate::wire::codec::Field::put(&self.$field, out);)*
                });
            }
            fn take(input: &mut &[u8]) -> Option<Self> {
                let input = &mut $crate::wire::codec::take_frame(input)?;
                Some(Self { $($field: $crate::wire::codec::take_or_absent(input)?,)* })
            }
            fn absent() -> Self {
                Self { $($field: <$type as $crate::wire::codec::Field>::absent(),)* }
            }
        }
    };
}

/// Declares the messages of one direction: number, name, contents.
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
                        $crate::wire::codec::Field::put(body, &mut out);
                    })*
                }
                out
            }

            /// `None` for garbage and for messages of a later version.
            pub fn decode(mut input: &[u8]) -> Option<Self> {
                let input = &mut input;
                match <u8 as $crate::wire::codec::Field>::take(input)? {
                    $($number => Some(Self::$variant($crate::wire::codec::take_or_absent(input)?)),)*
                    _ => None,
                }
            }
        }
    };
}
pub(crate) use {wire_messages, wire_struct};

impl Field for () {
    fn put(&self, _: &mut Vec<u8>) {}
    fn take(_: &mut &[u8]) -> Option<Self> {
        Some(())
    }
    fn absent() -> Self {}
}
