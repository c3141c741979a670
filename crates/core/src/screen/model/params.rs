//! The parameters of a control sequence, separated by semicolons, with subparameters after colons.

/// Further parameters are ignored.
const MAX_PARAMS: usize = 32;
const MAX_VALUE: i64 = 0x7fff_ffff;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Param {
    pub(super) value: i64,
    /// Values after colons; -1 for an empty one.
    pub(super) subparams: Vec<i64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Params(Vec<Param>);

impl Params {
    pub(super) fn parse(parameters: &[u8]) -> Self {
        let mut params: Vec<Param> = Vec::new();
        for part in parameters.split(|byte| *byte == b';').take(MAX_PARAMS) {
            let mut values = part.split(|byte| *byte == b':');
            let value = values.next().and_then(parse_number).unwrap_or(0);
            let subparams = values.take(MAX_PARAMS).map(|digits| parse_number(digits).unwrap_or(-1)).collect();
            params.push(Param { value, subparams });
        }
        Self(params)
    }

    pub(super) fn as_slice(&self) -> &[Param] {
        &self.0
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The parameter at `index`; 0 if it is missing.
    pub(super) fn get(&self, index: usize) -> usize {
        self.0.get(index).map_or(0, |param| usize::try_from(param.value).unwrap_or(0))
    }

    /// The first parameter as a repeat count or distance, for which 0 means 1.
    pub(super) fn count(&self) -> usize {
        self.get(0).max(1)
    }
}

fn parse_number(digits: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(digits).ok().filter(|text| !text.is_empty())?;
    let digits = text.bytes().filter(u8::is_ascii_digit);
    Some(digits.fold(0, |sum: i64, digit| (sum * 10 + i64::from(digit - b'0')).min(MAX_VALUE)))
}
