//! `outlive token`: access tokens issued at run time.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::client::endpoint::escape;
use super::client::{ApiRequest, Client};
use super::error::Result;
use super::spec::millis;
use super::text::table::{Cell, Colour, render};
use super::text::units;
use super::{output, terminal};

/// Manage access tokens
///
/// Tokens added here survive server restarts and upgrades. All commands need a token with the scope admin.
#[derive(clap::Args)]
pub(crate) struct Token {
    #[command(subcommand)]
    command: TokenCommand,
}

#[derive(clap::Subcommand)]
enum TokenCommand {
    /// List tokens
    Ls(Ls),
    /// Add a token and print it; it cannot be shown again
    Add(Add),
    /// Revoke tokens that were added with `outlive token add`; open connections stay open
    Rm(Rm),
}

#[derive(clap::Args)]
struct Ls {
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
struct Add {
    /// Name of the token in lists and in the audit log
    name: String,
    /// What the token allows; each scope includes the previous one
    #[arg(long, value_parser = ["read", "write", "admin"])]
    scope: String,
    /// Expire after this time (30m, 24h, 7d) [default: never]
    #[arg(long, value_name = "DURATION", value_parser = units::parse_duration)]
    expires: Option<Duration>,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
struct Rm {
    /// Names of the tokens
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,
}

impl Token {
    pub(crate) async fn execute(self, client: Arc<Client>) -> Result<i32> {
        match self.command {
            TokenCommand::Ls(ls) => ls.execute(&client).await,
            TokenCommand::Add(add) => add.execute(&client).await,
            TokenCommand::Rm(rm) => rm.execute(&client).await,
        }
    }
}

impl Ls {
    async fn execute(self, client: &Client) -> Result<i32> {
        let response = client.send(ApiRequest::get("/v1/tokens")).await?;
        if self.json {
            output::print_json(&response)?;
            return Ok(0);
        }
        let now = units::now_ms();
        let rows: Vec<_> = response["tokens"].as_array().into_iter().flatten().map(|token| row(token, now)).collect();
        let head = ["NAME", "SCOPE", "SOURCE", "EXPIRES"];
        output::print_text(&render(&head, &rows, terminal::width(), terminal::use_colours()))?;
        Ok(0)
    }
}

fn row(token: &Value, now: u64) -> Vec<Cell> {
    let text = |name: &str| Cell::new(token[name].as_str().unwrap_or("-"));
    let expires = match token["expiresAtMs"].as_u64() {
        None => Cell::new("never"),
        Some(at) if at <= now => Cell::coloured("expired", Colour::Red),
        Some(at) => Cell::new(format!("in {}", units::format_age(at - now))),
    };
    vec![text("name"), text("scope"), text("source"), expires]
}

impl Add {
    async fn execute(self, client: &Client) -> Result<i32> {
        let mut body = json!({ "name": self.name, "scope": self.scope });
        if let Some(expires) = self.expires {
            body["expiresInMs"] = millis(expires).into();
        }
        let issued = client.send(ApiRequest::post("/v1/tokens").json(body)).await?;
        if self.json {
            output::print_json(&issued)?;
        } else {
            output::print_line(issued["token"].as_str().unwrap_or_default())?;
        }
        Ok(0)
    }
}

impl Rm {
    async fn execute(self, client: &Client) -> Result<i32> {
        let mut max_code = 0;
        for name in &self.names {
            if let Err(error) = client.send(ApiRequest::delete(format!("/v1/tokens/{}", escape(name)))).await {
                max_code = max_code.max(error.exit_code());
                output::print_error(error);
            }
        }
        Ok(max_code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_shows_when_a_token_expires() {
        let cells = |expires: Value| {
            row(&json!({ "name": "ci", "scope": "read", "source": "issued", "expiresAtMs": expires }), 1_000)
        };
        let expected = |expires: Cell| vec![Cell::new("ci"), Cell::new("read"), Cell::new("issued"), expires];
        assert_eq!(cells(Value::Null), expected(Cell::new("never")));
        assert_eq!(cells(json!(3_601_000)), expected(Cell::new("in 1h")));
        assert_eq!(cells(json!(1_000)), expected(Cell::coloured("expired", Colour::Red)));
    }
}
