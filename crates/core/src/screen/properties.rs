//! What holds for every output, sensible or not.

use proptest::collection::vec;
use proptest::prelude::*;

use super::model::Model;
use super::repaint::repaint;
use crate::attach::Size;

/// Something that a program may print: mostly what means something.
fn piece(text: &'static str) -> impl Strategy<Value = Vec<u8>> {
    let number =
        || prop_oneof![Just(String::new()), (0_u16..30).prop_map(|n| n.to_string()), Just("999999999999".to_owned())];
    let control = (
        prop_oneof![Just(""), Just("?"), Just(">")],
        number(),
        number(),
        "[@-~]",
        prop_oneof![Just(""), Just(" "), Just("!"), Just("'")],
    )
        .prop_map(|(private, first, second, last, between)| {
            format!("\x1b[{private}{first};{second}{between}{last}").into_bytes()
        });
    let mode = (prop_oneof![Just(1049), Just(47), Just(6), Just(45), Just(1048)], any::<bool>())
        .prop_map(|(mode, on)| format!("\x1b[?{mode}{}", if on { 'h' } else { 'l' }).into_bytes());
    prop_oneof![
        text.prop_map(String::into_bytes),
        control,
        mode,
        proptest::sample::select(vec![
            "\r\n", "\t", "\x08", "\x1b7", "\x1b8", "\x1bM", "\x1bD", "\x1bc", "\x1b(0", "\x0e", "\x1bH"
        ])
        .prop_map(|text| text.as_bytes().to_vec()),
        "\x1b\\][0-9]{1,3};[a-z;]{0,9}\x07".prop_map(String::into_bytes),
        vec(any::<u8>(), 0..6),
    ]
}

#[derive(Clone, Debug)]
enum Step {
    Print(Vec<u8>),
    Resize(u16, u16),
}

const ALL: &str = "[a-z 漢字한é😀\u{301}\u{200d}]{0,30}";
const WITHOUT_MARKS: &str = "[a-z 漢字한é😀]{0,30}";

fn steps(text: &'static str, cols: std::ops::Range<u16>) -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        12 => piece(text).prop_map(Step::Print),
        1 => (cols, 0_u16..20).prop_map(|(cols, rows)| Step::Resize(cols, rows)),
    ];
    vec(step, 0..60)
}

fn played(steps: &[Step], chunk: usize) -> Model {
    let mut model = Model::new(Size { cols: 20, rows: 6 });
    for step in steps {
        match step {
            Step::Print(bytes) => bytes.chunks(chunk).for_each(|bytes| model.feed(bytes)),
            Step::Resize(cols, rows) => model.resize(Size { cols: *cols, rows: *rows }),
        }
    }
    model
}

proptest! {
    /// No output makes it fail, and how it was cut into pieces cannot be seen.
    #[test]
    fn any_output_in_any_pieces_gives_one_screen(steps in steps(ALL, 0..40), chunk in 1_usize..8) {
        let (whole, pieces) = (played(&steps, usize::MAX), played(&steps, chunk));
        prop_assert_eq!(repaint(&whole, 1000), repaint(&pieces, 1000));
        prop_assert_eq!(whole.kept_back(), pieces.kept_back());
        let fed: usize = steps.iter().map(|step| if let Step::Print(bytes) = step { bytes.len() } else { 0 }).sum();
        prop_assert!(whole.kept_back() <= fed as u64);
    }

    /// What a repaint makes of a fresh model looks the same. (A narrower screen may cut a wide character in two, and a mark that has
    /// nothing to join may take the place of half of one: nothing can print that.)
    #[test]
    fn a_repaint_shows_what_it_was_made_from(steps in steps(WITHOUT_MARKS, 20..21)) {
        // Without wrapping, halves of wide characters are overwritten at the edge.
        prop_assume!(!steps.iter().any(|step| matches!(step, Step::Print(bytes) if bytes.ends_with(b"?7l") || bytes.ends_with(b";7l"))));
        let model = played(&steps, usize::MAX);
        let again = Model::restored(Size { cols: model.cols as u16, rows: model.rows as u16 }, &repaint(&model, 1000));
        let shown = |model: &Model| {
            let buffer = model.active();
            let lines: Vec<String> = (0..model.rows).map(|row| buffer.row(row).map_or_else(String::new, |line| line.text(model.cols))).collect();
            (lines, buffer.y, model.shows_alternate, model.modes.clone(), model.title.clone())
        };
        prop_assert_eq!(shown(&model), shown(&again));
    }
}

#[test]
fn a_reset_is_noticed_once_and_a_repaint_is_none() {
    let size = Size { cols: 20, rows: 6 };
    let mut model = Model::new(size);
    model.feed(b"text\x1b[!p\x1b[2J");
    assert!(!model.take_was_reset());
    model.feed(b"\x1bc");
    assert!(model.take_was_reset() && !model.take_was_reset());
    let bytes = repaint(&model, 0);
    assert!(!Model::restored(size, &bytes).take_was_reset());
}
