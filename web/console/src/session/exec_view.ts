import type { ExecInfo, ExecResult } from '@outlive/client';
import { LogView } from '../logs/log_view.js';
import { element, setText } from '../page/element.js';
import { refusal } from '../page/form.js';

/** One command of a session: what was asked, what it printed, how it ended. */
export class ExecView {
  readonly element: HTMLElement;
  readonly cancel: () => void;
  readonly #output = new LogView();
  readonly #end = element('span', { class: 'exec-end', 'data-testid': 'exec-end' });
  readonly #cancelButton: HTMLElement;
  isOver = false;

  constructor(command: string, cancel: () => void) {
    this.cancel = cancel;
    this.#cancelButton = element('button', { type: 'button', class: 'quiet', onclick: cancel }, 'Cancel');
    this.#output.element.removeAttribute('tabindex');
    this.#output.element.setAttribute('role', 'group');
    this.element = element(
      'article',
      { class: 'exec', 'data-testid': 'exec' },
      element(
        'header',
        {},
        element('span', { class: 'ask', 'aria-hidden': 'true' }, '$'),
        element('code', {}, command),
        this.#end,
        this.#cancelButton,
      ),
      this.#output.element,
    );
    setText(this.#end, 'running');
  }

  print(stream: 'stdout' | 'stderr', bytes: Uint8Array): void {
    this.#output.add(stream, bytes);
  }

  say(text: string): void {
    this.#output.say(text);
  }

  /** All at once: of both streams the order among each other is not known. */
  showResult(result: ExecResult): void {
    this.#output.clear();
    const encoder = new TextEncoder();
    if (result.stdout) this.print('stdout', encoder.encode(result.stdout));
    if (result.stderr) this.print('stderr', encoder.encode(result.stderr));
    if (result.truncated) this.say('The middle of it is left out here.');
    this.end(result);
  }

  end(exec: ExecInfo): void {
    this.isOver = true;
    this.#cancelButton.remove();
    const how = exec.timedOut
      ? 'timed out'
      : exec.cancelled
        ? 'cancelled'
        : exec.signal
          ? exec.signal
          : exec.exitCode === 0
            ? ''
            : `exit ${exec.exitCode ?? '?'}`;
    const took =
      exec.durationMs === null || exec.durationMs === undefined
        ? ''
        : exec.durationMs < 1000
          ? `${exec.durationMs} ms`
          : `${(exec.durationMs / 1000).toFixed(1)} s`;
    setText(this.#end, [how, took, exec.shellExited ? 'the shell ended' : ''].filter(Boolean).join(' · '));
    this.#end.classList.toggle('failed', how !== '');
  }

  fail(error: unknown): void {
    this.isOver = true;
    this.#cancelButton.remove();
    setText(this.#end, 'refused');
    this.#end.classList.add('failed');
    const why = refusal();
    why.say(error);
    this.element.append(why.element);
  }
}
