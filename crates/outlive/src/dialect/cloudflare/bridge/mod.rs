//! The bridge: the API over which the agents extensions use a sandbox.

pub(super) mod archive;
pub(super) mod exec;
pub(super) mod files;
pub(super) mod openapi;
mod received;
pub(super) mod sandbox;
mod workspace;

use super::error::BridgeError;
use crate::api::extract::Path;
use crate::api::problem::Problem;

/// Longest id that there is.
const MOST_ID_BYTES: usize = 128;

/// What stands for a sandbox in a path, if it can.
pub(super) fn sandbox_id(path: Result<Path<String>, Problem>) -> Result<String, BridgeError> {
    let Path(id) = path?;
    checked_sandbox(id)
}

fn checked_sandbox(id: String) -> Result<String, BridgeError> {
    let fits =
        (1..=MOST_ID_BYTES).contains(&id.len()) && id.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'2'..=b'7'));
    if fits { Ok(id) } else { Err(BridgeError::invalid("Invalid sandbox ID format")) }
}

/// The core's id of a sandbox's session. A sandbox's id has no dot, so no two become one.
pub(super) fn session_id(sandbox: &str, id: &str) -> Result<String, BridgeError> {
    let known = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let fits = (1..=MOST_ID_BYTES).contains(&id.len()) && id.bytes().all(known) && !id.contains("..");
    if fits { Ok(format!("{sandbox}.{id}")) } else { Err(BridgeError::invalid("Invalid session ID format")) }
}

/// What belongs to Cloudflare's platform and not to a sandbox.
pub(super) async fn unsupported() -> BridgeError {
    BridgeError::unsupported()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_what_the_bridge_takes() {
        assert!(checked_sandbox("abc234".into()).is_ok());
        for wrong in ["", "ABC", "a-b", "a1", &"a".repeat(129)] {
            assert!(checked_sandbox(wrong.to_owned()).is_err(), "{wrong}");
        }
        assert_eq!(session_id("abc", "s-1.x").unwrap(), "abc.s-1.x");
        for wrong in ["", "a..b", "a/b", "a b", &"a".repeat(129)] {
            assert!(session_id("abc", wrong).is_err(), "{wrong}");
        }
    }
}
