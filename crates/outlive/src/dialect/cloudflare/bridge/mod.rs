//! The bridge: the API that the agents extensions call.

mod archive;
pub(super) mod exec;
pub(super) mod files;
pub(super) mod openapi;
pub(super) mod sandbox;
mod spool;
mod workspace;

use super::error::BridgeError;

const MAX_ID_BYTES: usize = 128;

pub(super) fn check_sandbox_id(id: &str) -> Result<(), BridgeError> {
    let is_base32 = id.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'2'..=b'7'));
    let is_valid = (1..=MAX_ID_BYTES).contains(&id.len()) && is_base32;
    if is_valid { Ok(()) } else { Err(BridgeError::invalid("Invalid sandbox ID format")) }
}

/// The core's id of a sandbox's session. It is unique because a sandbox id contains no dot.
pub(super) fn core_session_id(sandbox: &str, id: &str) -> Result<String, BridgeError> {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let is_valid = (1..=MAX_ID_BYTES).contains(&id.len()) && id.bytes().all(is_allowed) && !id.contains("..");
    if is_valid { Ok(format!("{sandbox}.{id}")) } else { Err(BridgeError::invalid("Invalid session ID format")) }
}

/// The handler of routes that belong to Cloudflare's platform: buckets, tunnels, pools.
pub(super) async fn unsupported() -> BridgeError {
    BridgeError::unsupported()
}

/// Feeds the input to every parser of the bridge.
#[cfg(any(fuzzing, test))]
pub(super) fn fuzz(data: &[u8]) {
    use super::fuzzing::{body, query};

    archive::fuzz(data);
    exec::fuzz(data);
    files::fuzz(data);
    body::<sandbox::SessionRequest, BridgeError>(data);
    query::<files::PersistQuery, BridgeError>(data);
    let Ok(text) = std::str::from_utf8(data) else { return };
    let is_plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
    assert!(check_sandbox_id(text).is_err() || !text.is_empty() && !text.contains('.') && is_plain(text));
    if let Ok(id) = core_session_id("abc", text) {
        assert!(id == format!("abc.{text}") && !text.contains("..") && is_plain(&id));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_have_the_formats_of_the_bridge() {
        assert!(check_sandbox_id("abc234").is_ok());
        for invalid in ["", "ABC", "a-b", "a1", &"a".repeat(129)] {
            assert!(check_sandbox_id(invalid).is_err(), "{invalid}");
        }
        assert_eq!(core_session_id("abc", "s-1.x").unwrap(), "abc.s-1.x");
        for invalid in ["", "a..b", "a/b", "a b", &"a".repeat(129)] {
            assert!(core_session_id("abc", invalid).is_err(), "{invalid}");
        }
    }
}
