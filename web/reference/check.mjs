// One check: a stream, cut at many offsets. At each of them a new terminal gets the program's repaint and the bytes
// from the repaint's offset to the cut, and must be the same as one that has seen everything.

import { difference } from './difference.mjs';
import { Emulator } from './emulator.mjs';
import { Player } from './player.mjs';
import { probes } from './probes.mjs';
import { repaints } from './program.mjs';
import { Random } from './random.mjs';
import { State } from './state.mjs';

/** Share of the cuts after which hidden state is brought out; the reference has to be made anew for each. */
const PROBED = 0.1;
/** Share of the repaints that are written over an old screen, as a client does that lost its place. */
const OVER_OLD = 0.2;

/** Mode: { scrollback, restart, cuts }. Answers { cuts, probed, failures: [text], said }; gives up after `patience` failures. */
export async function check(program, stream, mode, seed, patience = 1) {
  const random = new Random(seed);
  const offsets = stream.resizes.map(({ offset }) => offset);
  const cuts = random.ascending(mode.cuts, stream.bytes.length, [0, stream.bytes.length, ...offsets]);
  const { cols, rows, resizes } = stream;
  const request = {
    bytes: stream.bytes.toString('base64'), cols, rows, resizes, cuts, scrollback: mode.scrollback, restart: mode.restart, seed,
  };
  const reference = new Player(new Emulator(cols, rows), stream);
  const comparison = new Comparison(stream, mode, random);
  const failures = [];
  let said = '';
  for await (const answer of repaints(program, request, (text) => (said = text))) {
    reference.to(answer.cut);
    const wrong = comparison.at(answer, reference.emulator);
    if (wrong) failures.push(`cut ${answer.cut} (repaint for ${answer.offset}, ${answer.repaint.length} bytes): ${wrong}`);
    if (failures.length >= patience) break;
  }
  return { cuts: cuts.length, probed: comparison.probed, failures, said };
}

/**
 * New sizes move a saved cursor, even one that nobody has saved, and also when it is above or below the screen: how far, nobody can know
 * who has been told of the screen alone, as after a restart.
 */
function sameSavedRow(subject, reference) {
  const [ours, theirs] = [subject, reference].map(({ core }) => core._bufferService.buffers.normal);
  ours.savedY = ours.ybase + Math.max(theirs.savedY - theirs.ybase, 0);
}

class Comparison {
  constructor(stream, mode, random) {
    this.stream = stream;
    this.mode = mode;
    this.random = random;
    this.subject = new Emulator(stream.cols, stream.rows);
    this.second = new Emulator(stream.cols, stream.rows);
    this.states = [new State(1 << 15), new State(1 << 15)];
    this.probed = 0;
  }

  /** What is wrong, if anything. */
  at({ cut, offset, cols, rows, repaint }, reference) {
    const { stream, subject, random } = this;
    const overOld = random.next() < OVER_OLD;
    const probed = random.next() < PROBED;
    if (overOld) {
      subject.resize(cols, rows);
      // Settings of a page as well, so a repaint leaves them alone unless the program has changed them.
      Object.assign(subject.core.options, { convertEol: false, cursorBlink: false });
    } else {
      subject.renew(cols, rows);
    }
    const where = overOld ? ', written over an old screen' : '';
    // What is left of an old character is no part of the repaint.
    subject.held = subject.held.subarray(0, 0);
    subject.write(repaint);
    if (subject.held.length > 0) return `the repaint ends within a character${where}`;
    const painted = linesAbove(subject);
    new Player(subject, stream, offset).to(cut);
    // A character that a mark could still join was printed on a screen of another size: it cannot be printed again.
    if (stream.resizes.some((resize) => resize.offset === cut)) {
      subject.core._inputHandler._parser.precedingJoinState = reference.core._inputHandler._parser.precedingJoinState;
    }
    if (this.mode.restart && stream.resizes.length > 0) sameSavedRow(subject, reference);
    const wrong = this.linesAbove(painted, reference) ?? this.difference(reference);
    if (wrong) return `${wrong.replace(/^\n?/, `after the repaint${where}:\n`)}`;
    return probed ? this.probe(cut) : undefined;
  }

  probe(cut) {
    const { stream, second, subject, random } = this;
    this.probed += 1;
    second.renew(stream.cols, stream.rows);
    new Player(second, stream).to(cut);
    let done = '';
    for (const [name, bytes] of probes(random, stream, cut, second)) {
      second.write(bytes);
      subject.write(bytes);
      const wrong = this.difference(second);
      if (wrong) return `after the probe "${name}"${done && ` (and before it ${done})`}:\n${wrong}`;
      done += `${done && ', '}"${name}"`;
    }
    return undefined;
  }

  /** There are as many lines above the screen as were asked for. */
  linesAbove(painted, reference) {
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
