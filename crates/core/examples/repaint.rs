//! Repaints recorded output, so that `web/reference` can compare the result with another terminal emulator.
//!
//! Reads one request per line: `{"bytes": BASE64, "cols", "rows", "resizes": [{"offset", "cols", "rows"}],
//! "cuts": [OFFSET…], "scrollback", "restart"}`. Writes one line per cut:
//! `{"cut", "offset", "cols", "rows", "repaint": BASE64}`. With `restart`, the model is stored as a checkpoint at every
//! cut and restored from it, as the next server would.

use std::io::{BufRead, Write};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use outlive_core::attach::Size;
use outlive_core::screen::{Model, repaint};
use serde::Deserialize;

#[derive(Deserialize)]
struct Request {
    bytes: String,
    cols: u16,
    rows: u16,
    #[serde(default)]
    resizes: Vec<Resize>,
    cuts: Vec<usize>,
    #[serde(default)]
    scrollback: usize,
    #[serde(default)]
    restart: bool,
}

#[derive(Deserialize)]
struct Resize {
    offset: usize,
    cols: u16,
    rows: u16,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let request: Request = serde_json::from_str(&line?)?;
        write_repaints(&request, &mut out)?;
    }
    Ok(())
}

fn write_repaints(request: &Request, out: &mut impl Write) -> Result<(), Box<dyn std::error::Error>> {
    let bytes = STANDARD.decode(&request.bytes)?;
    let mut size = Size { cols: request.cols, rows: request.rows };
    let mut model = Model::new(size);
    let mut at = 0;
    for cut in &request.cuts {
        while at < *cut || request.resizes.iter().any(|resize| resize.offset == at && size_of(resize) != size) {
            for resize in request.resizes.iter().filter(|resize| resize.offset == at) {
                size = size_of(resize);
                model.resize(size);
            }
            if at == *cut {
                break;
            }
            let next = request.resizes.iter().map(|resize| resize.offset).filter(|offset| *offset > at).min();
            let until = next.unwrap_or(usize::MAX).min(*cut);
            model.feed(&bytes[at..until]);
            at = until;
        }
        if request.restart {
            let checkpoint = repaint(&model, 1000);
            let pending = usize::try_from(model.pending_bytes())?;
            model = Model::restored(size, &checkpoint);
            model.feed(&bytes[at - pending..at]);
        }
        let offset = at as u64 - model.pending_bytes();
        let painted = STANDARD.encode(repaint(&model, request.scrollback));
        writeln!(
            out,
            "{{\"cut\":{cut},\"offset\":{offset},\"cols\":{},\"rows\":{},\"repaint\":\"{painted}\"}}",
            size.cols, size.rows
        )?;
    }
    Ok(out.flush()?)
}

fn size_of(resize: &Resize) -> Size {
    Size { cols: resize.cols, rows: resize.rows }
}
