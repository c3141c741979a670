import type { ExecInfo, ExecResult } from '@outlive/client';
import { LogView } from '../logs/log_view.js';
import { element, setText } from '../page/element.js';
import { errorLine } from '../page/form.js';

/** One command of a session with its output and result. */
export class ExecView {
  readonly element: HTMLElement;
  readonly cancel: () => void;
  readonly #output = new LogView();
  readonly #end = element('span', { class: 'exec-end', 'data-testid': 'exec-end' });
  readonly #cancelButton: HTMLElement;
  isEnded = false;

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
        element('span', { class: 'prompt-sign', 'aria-hidden': 'true' }, '$'),
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

  addNotice(text: string): void {
    this.#output.addNotice(text);
  }

  /** Shows a complete result: stdout before stderr, because their relative order is not recorded. */
  showResult(result: ExecResult): void {
    this.#output.clear();
    const encoder = new TextEncoder();
    if (result.stdout) this.print('stdout', encoder.encode(result.stdout));
    if (result.stderr) this.print('stderr', encoder.encode(result.stderr));
    if (result.truncated) this.addNotice('The middle of the output is omitted.');
    this.end(result);
  }

  end(exec: ExecInfo): void {
    this.isEnded = true;
    this.#cancelButton.remove();
    const failure = failureLabel(exec);
    const shellExit = exec.shellExited ? 'shell exited' : '';
    setText(this.#end, [failure, formatDuration(exec.durationMs), shellExit].filter(Boolean).join(' · '));
    this.#end.classList.toggle('failed', failure !== '');
  }

  fail(error: unknown): void {
    this.isEnded = true;
    this.#cancelButton.remove();
    setText(this.#end, 'failed');
    this.#end.classList.add('failed');
    const message = errorLine();
    message.show(error);
    this.element.append(message.element);
  }
}

/** Empty for a command that succeeded. */
function failureLabel(exec: ExecInfo): string {
  if (exec.timedOut) return 'timed out';
  if (exec.cancelled) return 'cancelled';
  if (exec.signal) return exec.signal;
  return exec.exitCode === 0 ? '' : `exit ${exec.exitCode ?? '?'}`;
}

function formatDuration(ms: number | null | undefined): string {
  if (ms === null || ms === undefined) return '';
  return ms < 1000 ? `${ms} ms` : `${(ms / 1000).toFixed(1)} s`;
}
