//! Property tests: invariants of the model for arbitrary output.

use proptest::collection::vec;
use proptest::prelude::*;

use super::model::Model;
use super::repaint::repaint;
use crate::attach::Size;

/// A piece of output, mostly meaningful sequences.
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

fn run_steps(steps: &[Step], chunk: usize) -> Model {
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
    /// No output makes the model panic, and the result does not depend on how the output is cut into chunks.
    #[test]
    fn the_screen_does_not_depend_on_chunk_boundaries(steps in steps(ALL, 0..40), chunk in 1_usize..8) {
        let (whole, pieces) = (run_steps(&steps, usize::MAX), run_steps(&steps, chunk));
        prop_assert_eq!(repaint(&whole, 1000), repaint(&pieces, 1000));
        prop_assert_eq!(whole.pending_bytes(), pieces.pending_bytes());
        let fed: usize = steps.iter().map(|step| if let Step::Print(bytes) = step { bytes.len() } else { 0 }).sum();
        prop_assert!(whole.pending_bytes() <= fed as u64);
    }

    /// A fresh model that is fed the repaint has the same screen. Excluded: a narrower screen may cut a wide character
    /// in two, and a combining mark without a base may replace half of one; no output can produce that.
    #[test]
    fn a_repaint_restores_the_screen(steps in steps(WITHOUT_MARKS, 20..21)) {
        // Without autowrap, halves of wide characters are overwritten at the edge.
        let disables_autowrap =
            |step: &Step| matches!(step, Step::Print(bytes) if bytes.ends_with(b"?7l") || bytes.ends_with(b";7l"));
        prop_assume!(!steps.iter().any(disables_autowrap));
        let model = run_steps(&steps, usize::MAX);
        let restored = Model::restored(model.size(), &repaint(&model, 1000));
        let visible_state = |model: &Model| {
            let buffer = model.active();
            let text = |row| buffer.row(row).map_or_else(String::new, |line| line.text(model.cols));
            let lines: Vec<String> = (0..model.rows).map(text).collect();
            (lines, buffer.y, model.alternate_active, model.modes.clone(), model.title.clone())
        };
        prop_assert_eq!(visible_state(&model), visible_state(&restored));
    }
}

#[test]
fn a_reset_is_reported_once_and_a_repaint_is_not_a_reset() {
    let size = Size { cols: 20, rows: 6 };
    let mut model = Model::new(size);
    model.feed(b"text\x1b[!p\x1b[2J");
    assert!(!model.take_was_reset());
    model.feed(b"\x1bc");
    assert!(model.take_was_reset() && !model.take_was_reset());
    let bytes = repaint(&model, 0);
    assert!(!Model::restored(size, &bytes).take_was_reset());
}
