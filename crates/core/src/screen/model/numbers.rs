//! The numbers of a control sequence, with those that are joined to another by colons.

/// More than that nobody sends who means it.
const MOST: usize = 32;
const LARGEST: i64 = 0x7fff_ffff;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Number {
    pub(super) value: i64,
    /// After colons; -1 is one that was left out.
    pub(super) more: Vec<i64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Numbers(Vec<Number>);

impl Numbers {
    pub(super) fn parse(parameters: &[u8]) -> Self {
        let mut numbers: Vec<Number> = Vec::new();
        for part in parameters.split(|byte| *byte == b';').take(MOST) {
            let mut pieces = part.split(|byte| *byte == b':');
            let value = pieces.next().and_then(number).unwrap_or(0);
            let more = pieces.take(MOST).map(|piece| number(piece).unwrap_or(-1)).collect();
            numbers.push(Number { value, more });
        }
        Self(numbers)
    }

    pub(super) fn all(&self) -> &[Number] {
        &self.0
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// 0 if there is none.
    pub(super) fn get(&self, index: usize) -> usize {
        self.0.get(index).map_or(0, |number| usize::try_from(number.value).unwrap_or(0))
    }

    /// How often, or how far: 0 means once.
    pub(super) fn count(&self) -> usize {
        self.get(0).max(1)
    }
}

fn number(digits: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(digits).ok().filter(|text| !text.is_empty())?;
    let digits = text.bytes().filter(u8::is_ascii_digit);
    Some(digits.fold(0, |sum: i64, digit| (sum * 10 + i64::from(digit - b'0')).min(LARGEST)))
}
