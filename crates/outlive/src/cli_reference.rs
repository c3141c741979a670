//! Generates `docs/reference/cli.md` from the command line definition, and checks that the file is up to date.
//! `OUTLIVE_UPDATE_DOCS=1 cargo test -p outlive --lib cli_reference` writes it.

use std::fmt::Write as _;

use clap::{Arg, Command, CommandFactory as _};

use crate::Arguments;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/cli.md");
const MAX_COLUMNS: usize = 98;
const INTRODUCTION: &str = "# Command line

<!-- Generated from the command line definition. Do not edit; run:
     OUTLIVE_UPDATE_DOCS=1 cargo test -p outlive --lib cli_reference -->

`outlive COMMAND --help` prints the same text. Exit codes are in [exit-codes.md](exit-codes.md).
A process is named by its ID, by a unique prefix of its ID, or by its tag.
";

fn generate() -> String {
    let mut root = Arguments::command();
    root.build();
    let mut text = INTRODUCTION.to_owned();
    write_section(&mut text, &root, 2);
    text.push_str("\nEvery command also accepts the connection options above.\n");
    let mut commands = Vec::new();
    collect_subcommands(&root, 2, &mut commands);
    for (level, command) in commands {
        let mut command = command.clone();
        // These are the same for every command.
        command = command.mut_args(|argument| {
            let is_common = argument.get_id() == "help" || argument.get_help_heading() == Some("Connection");
            argument.hide(is_common)
        });
        write_section(&mut text, &command, level);
    }
    text
}

fn collect_subcommands<'a>(command: &'a Command, level: usize, all: &mut Vec<(usize, &'a Command)>) {
    for child in command.get_subcommands().filter(|child| !child.is_hide_set() && child.get_name() != "help") {
        all.push((level, child));
        collect_subcommands(child, level + 1, all);
    }
}

/// The heading `## outlive serve` has the anchor `#outlive-serve`.
fn write_section(text: &mut String, command: &Command, level: usize) {
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name());
    let about = command.get_long_about().or(command.get_about()).map(ToString::to_string).unwrap_or_default();
    let about = about.lines().map(wrap_sentence).collect::<Vec<_>>().join("\n");
    let help = command
        .clone()
        .about(None::<&str>)
        .long_about(None::<&str>)
        .term_width(MAX_COLUMNS)
        .help_template("{usage-heading} {usage}\n\n{all-args}")
        // The values of the environment in which this runs.
        .mut_args(|argument: Arg| argument.hide_env_values(true))
        .render_help()
        .to_string();
    let _ = write!(text, "\n{} {name}\n\n{about}\n\n```text\n", "#".repeat(level));
    for line in help.trim_end().lines() {
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text.push_str("```\n");
}

/// Breaks a paragraph into lines, and ends it with a full stop.
fn wrap_sentence(paragraph: &str) -> String {
    let mut text = String::new();
    let mut column = 0;
    for word in paragraph.split_whitespace() {
        let chars = word.chars().count();
        let fits = column + 1 + chars <= MAX_COLUMNS;
        if column > 0 {
            text.push(if fits { ' ' } else { '\n' });
        }
        column = if column > 0 && fits { column + 1 + chars } else { chars };
        text.push_str(word);
    }
    if text.is_empty() || text.ends_with(['.', ':']) { text } else { text + "." }
}

#[test]
fn the_checked_in_cli_reference_is_up_to_date() {
    let generated = generate();
    if std::env::var_os("OUTLIVE_UPDATE_DOCS").is_some_and(|value| value == "1") {
        std::fs::write(FILE, &generated).unwrap();
    }
    let checked_in = std::fs::read_to_string(FILE).unwrap_or_default();
    let advice = "run `OUTLIVE_UPDATE_DOCS=1 cargo test -p outlive --lib cli_reference`";
    assert!(checked_in == generated, "docs/reference/cli.md is out of date; {advice}");
}

#[test]
fn every_command_has_a_section_with_usage_and_options() {
    let generated = generate();
    for heading in ["## outlive", "## outlive serve", "### outlive session exec", "### outlive token add"] {
        assert!(generated.contains(&format!("\n{heading}\n")), "{heading}");
    }
    assert!(generated.contains("Usage: outlive token add [OPTIONS] --scope <SCOPE> <NAME>"));
    assert!(!generated.contains("outlive hold") && !generated.contains("outlive server"), "hidden commands");
    assert!(generated.lines().all(|line| line.chars().count() <= 100));
}
