//! Bodies whose unknown fields are reported: in the response header `x-outlive-unknown-fields`, and with `?strict=true`
//! as an error. Without a report, a misspelled option would have no effect and no trace.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::convert::Infallible;

use axum::extract::{FromRequest, Query, Request};
use axum::http::HeaderValue;
use axum::response::{IntoResponseParts, ResponseParts};
use serde::de::{DeserializeOwned, Deserializer, Error as _, IgnoredAny, Visitor};
use serde::{Deserialize, forward_to_deserialize_any};
use serde_ignored::Path;

use super::AppState;
use super::extract::{invalid_query, parse, read_json};
use super::problem::{HandlerResult, Problem, quote};

const HEADER: &str = "x-outlive-unknown-fields";
/// Further names are left out of the header.
const MAX_NAMES: usize = 16;
/// Longer names are cut.
const MAX_NAME_BYTES: usize = 96;
/// Stands in the header for names that were left out, and for the rest of a name that was cut.
const OMITTED: &str = "...";

/// A body that can report its unknown fields.
pub(crate) trait ReportsUnknownFields: Sized {
    fn parse(bytes: &[u8], unknown: &mut UnknownFields) -> HandlerResult<Self>;
    /// The fields of the object at this path; the path of the body itself is empty.
    fn field_names(object: &str) -> Vec<&'static str>;
}

/// A JSON body and its unknown fields. The handler returns these with its response, which then has the header.
pub(crate) struct BodyWithUnknownFields<T>(pub(crate) T, pub(crate) UnknownFields);

#[derive(Deserialize)]
struct StrictQuery {
    strict: Option<bool>,
}

impl<T: ReportsUnknownFields> FromRequest<AppState> for BodyWithUnknownFields<T> {
    type Rejection = (UnknownFields, Problem);

    async fn from_request(request: Request, app: &AppState) -> Result<Self, Self::Rejection> {
        let mut unknown = UnknownFields::default();
        let is_strict = match request.uri().query() {
            None => false,
            Some(query) => match Query::<StrictQuery>::try_from_uri(request.uri()) {
                Ok(Query(parsed)) => parsed.strict.unwrap_or(false),
                Err(rejection) => return Err((unknown, invalid_query(&rejection.body_text(), query))),
            },
        };
        let bytes = match read_json(request, app).await {
            Ok(bytes) => bytes,
            Err(problem) => return Err((unknown, problem)),
        };
        let parsed = T::parse(&bytes, &mut unknown);
        match (parsed, unknown.names.first()) {
            (Err(problem), _) if problem.code() == "malformed_json" => Err((unknown, problem)),
            // Before errors of other fields: the unknown field may be a misspelling of one that is missing.
            (_, Some(name)) if is_strict => {
                let problem = unknown_field::<T>(name);
                Err((unknown, problem))
            }
            (Ok(body), _) => Ok(Self(body, unknown)),
            (Err(problem), _) => Err((unknown, problem)),
        }
    }
}

/// The unknown fields of a body, as a part of its response.
#[derive(Default)]
pub(crate) struct UnknownFields {
    /// Paths such as `restart.delay`.
    names: Vec<String>,
    has_more: bool,
}

impl UnknownFields {
    /// Parses a body and collects the fields that `T` does not have.
    pub(crate) fn collect<T: DeserializeOwned>(&mut self, bytes: &[u8]) -> HandlerResult<T> {
        self.collect_except(&[], bytes).0
    }

    /// Parses a body that has the fields of both `T` and `U`. `#[serde(flatten)]` is no alternative: it hides unknown
    /// fields, and errors do not name their field.
    pub(crate) fn collect_both<T, U>(&mut self, bytes: &[u8]) -> HandlerResult<(T, U)>
    where
        T: DeserializeOwned,
        U: DeserializeOwned,
    {
        let (first, has_fields_of_second) = self.collect_except(field_names::<U>(), bytes);
        let second = parse(if has_fields_of_second { bytes } else { b"{}" })?;
        Ok((first?, second))
    }

    /// The second value is true if the body has one of the `others`, which are not collected.
    fn collect_except<T: DeserializeOwned>(&mut self, others: &[&str], bytes: &[u8]) -> (HandlerResult<T>, bool) {
        let mut has_others = false;
        let mut input = serde_json::Deserializer::from_slice(bytes);
        let parsed = serde_ignored::deserialize(&mut input, |path| match &path {
            Path::Map { parent: Path::Root, key } if others.contains(&key.as_str()) => has_others = true,
            _ => self.add(&path),
        });
        let result = match parsed {
            Ok(value) if input.end().is_ok() => Ok(value),
            // Tracking the path of an error costs as much as parsing, so only an invalid body is parsed with it.
            _ => parse(bytes).map_err(|problem| {
                self.add_rejected(&problem);
                two_spellings(bytes, &problem).unwrap_or(problem)
            }),
        };
        (result, has_others)
    }

    fn add(&mut self, path: &Path<'_>) {
        if self.names.len() < MAX_NAMES {
            let mut name = String::new();
            push_path(path, &mut name);
            self.names.push(name);
        } else {
            self.has_more = true;
        }
    }

    /// Adds the field that an error is about if it is unknown to an object that rejects unknown fields itself.
    fn add_rejected(&mut self, problem: &Problem) {
        if let (Some(field), Some((_, got))) = (problem.field(), problem.mismatch())
            && got.starts_with("unknown field `")
        {
            self.names.push(field.to_owned());
        }
    }

    /// The names for the header. Bytes that could be mistaken for a separator or a line break are percent-encoded.
    fn header(&self) -> String {
        let names = self.names.iter().map(|name| encode(name));
        names.chain(self.has_more.then(|| OMITTED.to_owned())).collect::<Vec<_>>().join(",")
    }
}

impl IntoResponseParts for UnknownFields {
    type Error = Infallible;

    fn into_response_parts(self, mut response: ResponseParts) -> Result<ResponseParts, Infallible> {
        if !self.names.is_empty()
            && let Ok(value) = HeaderValue::try_from(self.header())
        {
            response.headers_mut().insert(HEADER, value);
        }
        Ok(response)
    }
}

fn push_path(path: &Path<'_>, name: &mut String) {
    let mut push = |parent: &Path<'_>, part: &str| {
        push_path(parent, name);
        if !name.is_empty() {
            name.push('.');
        }
        name.push_str(part);
    };
    match path {
        Path::Root => {}
        Path::Map { parent, key } => push(parent, key),
        Path::Seq { parent, index } => push(parent, &index.to_string()),
        Path::Some { parent } | Path::NewtypeStruct { parent } | Path::NewtypeVariant { parent } => {
            push_path(parent, name);
        }
    }
}

fn encode(name: &str) -> String {
    let mut encoded = String::new();
    for byte in name.bytes() {
        let unit = match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'-' | b'.' => char::from(byte).to_string(),
            _ => format!("%{byte:02X}"),
        };
        if encoded.len() + unit.len() > MAX_NAME_BYTES {
            encoded.push_str(OMITTED);
            break;
        }
        encoded.push_str(&unit);
    }
    encoded
}

fn unknown_field<T: ReportsUnknownFields>(name: &str) -> Problem {
    let (object, field) = name.rsplit_once('.').unwrap_or(("", name));
    let known = T::field_names(object);
    let close = close_matches(field, &known);
    let (detail, expected) = if close.is_empty() {
        (format!("unknown field {}", quote(name)), format!("one of {}", known.join(", ")))
    } else {
        let close = close.join(" or ");
        (format!("unknown field {}; did you mean {close}?", quote(name)), close)
    };
    Problem::bad_request("unknown_field", detail).with_field(name).with_expected(expected, name)
}

/// The known names that resemble a misspelled one, the closest first.
fn close_matches<'a>(name: &str, known: &[&'a str]) -> Vec<&'a str> {
    const MIN_SIMILARITY: f64 = 0.8;
    const MAX_MATCHES: usize = 3;
    // The comparison takes time quadratic in the length, and a field name can be as long as the body.
    if name.len() > MAX_NAME_BYTES {
        return Vec::new();
    }
    let name = without_spelling(name);
    let mut close: Vec<(u32, &str)> = known
        .iter()
        .map(|known| (strsim::jaro(&name, &without_spelling(known)), *known))
        .filter(|(similarity, _)| *similarity >= MIN_SIMILARITY)
        .map(|(similarity, known)| ((similarity * 1000.0) as u32, known))
        .collect();
    close.sort_by_key(|(similarity, _)| Reverse(*similarity));
    close.truncate(MAX_MATCHES);
    // A name that differs only in its spelling leaves no doubt.
    if close.first().is_some_and(|(_, known)| without_spelling(known) == name) {
        close.truncate(1);
    }
    close.into_iter().map(|(_, known)| known).collect()
}

/// The same for `timeoutMs` and `timeout_ms`.
fn without_spelling(name: &str) -> String {
    name.chars().filter(|letter| !['_', '-'].contains(letter)).flat_map(char::to_lowercase).collect()
}

/// serde reports the second spelling of a field as a duplicate of the first.
fn two_spellings(bytes: &[u8], problem: &Problem) -> Option<Problem> {
    let field = problem.detail().split_once("duplicate field `")?.1.split('`').next()?;
    #[expect(clippy::zero_sized_map_values, reason = "only the keys are kept in memory, however large the body")]
    let keys: BTreeMap<String, IgnoredAny> = serde_json::from_slice(bytes).ok()?;
    let other = keys.keys().find(|key| *key != field && without_spelling(key) == without_spelling(field))?;
    let detail = format!("{field} and {} are two spellings of one field; give only one of them", quote(other));
    Some(Problem::bad_request("duplicate_field", detail).with_field(field))
}

/// The names of all fields of a struct, with their other spellings.
pub(crate) fn field_names<T: DeserializeOwned>() -> &'static [&'static str] {
    /// Fails after it has received the names, which serde passes to the deserializer.
    struct Probe<'a>(&'a mut &'static [&'static str]);

    impl<'de> Deserializer<'de> for Probe<'_> {
        type Error = serde::de::value::Error;

        fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Self::Error> {
            Err(Self::Error::custom("not a struct"))
        }

        fn deserialize_struct<V: Visitor<'de>>(
            self,
            _: &'static str,
            fields: &'static [&'static str],
            visitor: V,
        ) -> Result<V::Value, Self::Error> {
            *self.0 = fields;
            self.deserialize_any(visitor)
        }

        forward_to_deserialize_any! {
            bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
            newtype_struct seq tuple tuple_struct map enum identifier ignored_any
        }
    }

    let mut names: &'static [&'static str] = &[];
    let _ = T::deserialize(Probe(&mut names));
    names
}

#[cfg(test)]
mod tests {
    use axum::response::IntoResponse as _;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "camelCase")]
    #[allow(dead_code)]
    struct Item {
        command: String,
        timeout_ms: Option<u64>,
        #[serde(alias = "session_id")]
        session_id: Option<String>,
        pty: Option<Size>,
        limits: Option<Limits>,
        #[serde(default)]
        env: BTreeMap<String, String>,
    }

    #[derive(Debug, Deserialize)]
    #[allow(dead_code)]
    struct Size {
        cols: u16,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code)]
    struct Limits {
        files: Option<u16>,
    }

    #[derive(Debug, Deserialize)]
    #[allow(dead_code)]
    struct Options {
        start: Option<bool>,
    }

    impl ReportsUnknownFields for Item {
        fn parse(bytes: &[u8], unknown: &mut UnknownFields) -> HandlerResult<Self> {
            unknown.collect_both::<Self, Options>(bytes).map(|(item, _)| item)
        }

        fn field_names(object: &str) -> Vec<&'static str> {
            match object {
                "" => field_names::<Self>().to_vec(),
                "pty" => field_names::<Size>().to_vec(),
                _ => Vec::new(),
            }
        }
    }

    fn unknown(body: &str) -> UnknownFields {
        let mut unknown = UnknownFields::default();
        Item::parse(body.as_bytes(), &mut unknown).unwrap();
        unknown
    }

    fn header(body: &str) -> Option<String> {
        let response = (unknown(body), "").into_response();
        response.headers().get(HEADER).map(|value| value.to_str().unwrap().to_owned())
    }

    #[test]
    fn unknown_fields_are_named_in_the_header() {
        assert_eq!(header(r#"{"command":"a","start":true,"pty":{"cols":1},"env":{"B":"1"}}"#), None);
        let body = r#"{"command":"a","timeout":1,"pty":{"cols":1,"rows":{"x":1}},"b":[1]}"#;
        assert_eq!(header(body).as_deref(), Some("timeout,pty.rows,b"));
        let options = |body: &str| UnknownFields::default().collect_both::<Item, Options>(body.as_bytes());
        assert_eq!(options(r#"{"start":false,"command":"a"}"#).unwrap().1.start, Some(false));
        assert_eq!(options(r#"{"start":5,"command":"a"}"#).unwrap_err().field(), Some("start"));
    }

    #[test]
    fn the_header_is_safe_and_bounded() {
        let body = r#"{"command":"a","a,b\r\nset-cookie: x":1,"é":1}"#;
        assert_eq!(header(body).as_deref(), Some("a%2Cb%0D%0Aset-cookie%3A%20x,%C3%A9"));
        let many: Vec<String> = (0..1000).map(|at| format!(r#","{at}{}":1"#, "é".repeat(1000))).collect();
        let many = many.concat();
        let header = header(&format!(r#"{{"command":"a"{many}}}"#)).unwrap();
        assert!(header.len() < (MAX_NAMES + 1) * (MAX_NAME_BYTES + 4), "{}", header.len());
        assert!(header.starts_with("0%C3%A9") && header.ends_with(",..."), "{header}");
    }

    #[test]
    fn a_strict_error_names_close_matches_or_the_known_fields() {
        let problem = |name: &str| serde_json::to_value(unknown_field::<Item>(name)).unwrap();
        let close = problem("timeout_ms");
        assert_eq!((&close["field"], &close["expected"]), (&"timeout_ms".into(), &"timeoutMs".into()));
        assert_eq!(close["detail"], "unknown field timeout_ms; did you mean timeoutMs?");
        assert_eq!((&close["status"], &close["code"]), (&400.into(), &"unknown_field".into()));
        assert_eq!(problem("comand")["expected"], "command");
        assert_eq!(problem("pty.clos")["expected"], "cols");
        assert_eq!(problem("xyz")["expected"], "one of command, timeoutMs, sessionId, session_id, pty, limits, env");
        let long = "é".repeat(100_000);
        assert!(problem(&long).to_string().len() < 4000);
    }

    #[test]
    fn a_field_may_be_given_in_one_spelling_only() {
        let mut unknown = UnknownFields::default();
        let one = Item::parse(br#"{"command":"a","session_id":"s"}"#, &mut unknown).unwrap();
        assert_eq!((one.session_id.as_deref(), unknown.names.len()), (Some("s"), 0));
        let code = |body: &str| {
            let problem = Item::parse(body.as_bytes(), &mut UnknownFields::default()).unwrap_err();
            (problem.status().as_u16(), problem.code(), problem.detail().to_owned())
        };
        let both = code(r#"{"command":"a","session_id":"s","sessionId":"s"}"#);
        assert_eq!((both.0, both.1), (400, "duplicate_field"));
        assert!(both.2.contains("sessionId and session_id"), "{}", both.2);
        let twice = code(r#"{"command":"a","sessionId":"s","sessionId":"s"}"#);
        assert_eq!((twice.0, twice.1), (422, "invalid_body"));
    }

    #[test]
    fn a_field_that_an_object_rejects_is_reported_too() {
        let mut unknown = UnknownFields::default();
        let body = br#"{"command":"a","limits":{"file":1}}"#;
        assert_eq!(Item::parse(body, &mut unknown).unwrap_err().status().as_u16(), 422);
        assert_eq!(unknown.header(), "limits.file");
    }

    #[test]
    fn an_invalid_body_has_the_same_error_as_without_reports() {
        for body in
            [r#"{"command":5}"#, r#"{"x":1}"#, "{", r#"{"command":"a"} x"#, r#"{"command":"a","pty":{"cols":-1}}"#]
        {
            let reported = Item::parse(body.as_bytes(), &mut UnknownFields::default()).unwrap_err();
            let plain = parse::<Item>(body.as_bytes()).unwrap_err();
            assert_eq!(serde_json::to_value(reported).unwrap(), serde_json::to_value(plain).unwrap(), "{body}");
        }
    }
}
