// One check: a stream, cut at many offsets. At each cut a new terminal gets the program's repaint and the bytes from
// the repaint's offset to the cut. It must be equal to a terminal that has received the whole stream up to the cut.

import { difference } from './difference.mjs';
import { Emulator } from './emulator.mjs';
import { Player } from './player.mjs';
import { probes } from './probes.mjs';
import { repaints } from './program.mjs';
import { Random } from './random.mjs';
import { State } from './state.mjs';

/** Fraction of the cuts after which probes reveal hidden state. Each needs a new reference terminal. */
const PROBED_FRACTION = 0.1;
/** Fraction of the repaints that are written over an old screen, as after a gap. */
const OVERWRITE_FRACTION = 0.2;

/**
 * `mode`: { scrollback, restart, cuts }. Returns { cuts, probed, failures: [text], stderr }. Stops after `maxFailures`
 * failures.
 */
export async function check(program, stream, mode, seed, maxFailures = 1) {
  const random = new Random(seed);
  const offsets = stream.resizes.map(({ offset }) => offset);
  const cuts = random.ascending(mode.cuts, stream.bytes.length, [0, stream.bytes.length, ...offsets]);
  const { cols, rows, resizes } = stream;
  const request = {
    bytes: stream.bytes.toString('base64'),
    cols,
    rows,
    resizes,
    cuts,
    scrollback: mode.scrollback,
    restart: mode.restart,
    seed,
  };
  const reference = new Player(new Emulator(cols, rows), stream);
  const comparison = new Comparison(stream, mode, random);
  const failures = [];
  let stderr = '';
  for await (const response of repaints(program, request, (text) => (stderr = text))) {
    reference.to(response.cut);
    const error = comparison.compare(response, reference.emulator);
    const { cut, offset, repaint } = response;
    if (error) failures.push(`cut ${cut} (repaint for ${offset}, ${repaint.length} bytes): ${error}`);
    if (failures.length >= maxFailures) break;
  }
  return { cuts: cuts.length, probed: comparison.probed, failures, stderr };
}

/**
 * A resize moves the saved cursor, even the initial one and one above or below the screen. A model that was restored
 * from a checkpoint of the screen alone cannot know how far.
 */
function copySavedRow(subject, reference) {
  const [to, from] = [subject, reference].map(({ core }) => core._bufferService.buffers.normal);
  to.savedY = to.ybase + Math.max(from.savedY - from.ybase, 0);
}

class Comparison {
  constructor(stream, mode, random) {
    this.stream = stream;
    this.mode = mode;
    this.random = random;
    this.subject = new Emulator(stream.cols, stream.rows);
    this.probeReference = new Emulator(stream.cols, stream.rows);
    this.states = [new State(1 << 15), new State(1 << 15)];
    this.probed = 0;
  }

  /** Returns a description of the first difference, or undefined. */
  compare({ cut, offset, cols, rows, repaint }, reference) {
    const { stream, subject, random } = this;
    const isOverwrite = random.next() < OVERWRITE_FRACTION;
    const isProbed = random.next() < PROBED_FRACTION;
    if (isOverwrite) {
      subject.resize(cols, rows);
      // These are also settings of a page, so a repaint leaves them alone unless the program changed them.
      Object.assign(subject.core.options, { convertEol: false, cursorBlink: false });
    } else {
      subject.renew(cols, rows);
    }
    const note = isOverwrite ? ', written over an old screen' : '';
    // An incomplete character of the old output is not part of the repaint.
    subject.held = subject.held.subarray(0, 0);
    subject.write(repaint);
    if (subject.held.length > 0) return `the repaint ends within a character${note}`;
    const painted = linesAbove(subject);
    new Player(subject, stream, offset).to(cut);
    // The character that a combining mark would join was printed at another size and cannot be printed again.
    if (stream.resizes.some((resize) => resize.offset === cut)) {
      subject.core._inputHandler._parser.precedingJoinState = reference.core._inputHandler._parser.precedingJoinState;
    }
    if (this.mode.restart && stream.resizes.length > 0) copySavedRow(subject, reference);
    const error = this.checkLinesAbove(painted, reference) ?? this.difference(reference);
    if (error) return `${error.replace(/^\n?/, `after the repaint${note}:\n`)}`;
    return isProbed ? this.probe(cut) : undefined;
  }

  /** Writes probes to both terminals and compares them after each. */
  probe(cut) {
    const { stream, probeReference, subject, random } = this;
    this.probed += 1;
    probeReference.renew(stream.cols, stream.rows);
    new Player(probeReference, stream).to(cut);
    let previous = '';
    for (const [name, bytes] of probes(random, stream, cut, probeReference)) {
      probeReference.write(bytes);
      subject.write(bytes);
      const error = this.difference(probeReference);
      if (error) return `after the probe "${name}"${previous && ` (preceded by ${previous})`}:\n${error}`;
      previous += `${previous && ', '}"${name}"`;
    }
    return undefined;
  }

  /** Checks that the repaint brought as many lines above the screen as requested. */
  checkLinesAbove(painted, reference) {
    const since = linesAbove(this.subject) - painted;
    const expected = Math.min(this.mode.scrollback, Math.max(linesAbove(reference) - since, 0));
    if (since < 0 || painted === expected) return undefined;
    return `  the repaint put ${painted} lines above the screen instead of ${expected}`;
  }

  difference(reference) {
    const above = Math.min(this.mode.scrollback, linesAbove(reference), linesAbove(this.subject));
    const [expected, got] = this.states;
    expected.read(reference, above);
    got.read(this.subject, above);
    return expected.same(got) ? undefined : difference(expected, got);
  }
}

function linesAbove({ core }) {
  return core._bufferService.buffers.normal.ybase;
}
