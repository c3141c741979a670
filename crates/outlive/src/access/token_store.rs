//! Tokens in the journal, so that the next server knows them: those that an admin has issued, and those of the token
//! file when it was last valid.

use outlive_core::Core;

use super::Access;
use super::token::Token;

/// Prefix of the journal keys of issued tokens.
const ISSUED_PREFIX: &str = "token/";
const FILE_KEY: &str = "token-file";

/// The tokens that earlier servers have issued.
pub(crate) fn load_issued(core: &Core) -> Vec<Token> {
    core.list_stored(ISSUED_PREFIX).into_iter().filter_map(|(_, value)| serde_json::from_slice(&value).ok()).collect()
}

/// Adds an issued token, in place of one with the same name.
pub(crate) fn issue(core: &Core, access: &Access, token: Token) -> outlive_core::Result<()> {
    let value = serde_json::to_vec(&token).unwrap_or_default();
    core.store(&format!("{ISSUED_PREFIX}{}", token.name), Some(value))?;
    access.issue(token);
    Ok(())
}

/// Removes an issued token; false if there is none of that name.
pub(crate) fn revoke(core: &Core, access: &Access, name: &str) -> outlive_core::Result<bool> {
    if !access.revoke(name) {
        return Ok(false);
    }
    core.store(&format!("{ISSUED_PREFIX}{name}"), None)?;
    Ok(true)
}

/// The tokens of the token file when it was last valid.
pub(crate) fn load_file_tokens(core: &Core) -> Vec<Token> {
    core.load(FILE_KEY).and_then(|value| serde_json::from_slice(&value).ok()).unwrap_or_default()
}

pub(crate) fn save_file_tokens(core: &Core, tokens: &[Token]) {
    let value = serde_json::to_vec(tokens).unwrap_or_default();
    if let Err(error) = core.store(FILE_KEY, Some(value)) {
        tracing::warn!(%error, "cannot store the tokens of the token file for the next server");
    }
}
