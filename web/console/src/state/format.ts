/** Text for processes, durations and sizes. */

import type { ProcessInfo } from '@outlive/client';

/** What "New terminal" starts: the login shell of the server's user. */
export const SHELL_COMMAND = 'exec "${SHELL:-$(command -v bash || echo sh)}"';

// Control characters, and characters that reorder or hide the text around them.
const INVISIBLE = /[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

/** Replaces invisible characters, so that names and commands of other users cannot disguise themselves. */
export function escapeInvisible(text: string): string {
  return text.replace(INVISIBLE, (char) => {
    const code = char.charCodeAt(0);
    return code < 0x20 ? String.fromCharCode(0x2400 + code) : '\u{fffd}';
  });
}

/** CSS class for the status of a process. `finished`: exited successfully or stopped on request. */
export type StatusClass = 'running' | 'waiting' | 'finished' | 'failed';

export function statusClass(process: ProcessInfo): StatusClass {
  if (process.status === 'running') return 'running';
  if (process.status === 'created') return 'waiting';
  return process.exitCode === 0 || process.exitReason === 'stopped' ? 'finished' : 'failed';
}

const EXIT_REASON_LABELS = {
  stopped: 'stopped',
  killed: 'killed',
  timedOut: 'timed out',
  outOfMemory: 'out of memory',
  detached: 'detached',
  shutdown: 'shut down',
  exited: '',
};

export function statusLabel(process: ProcessInfo): string {
  if (process.status === 'running') return process.stopRequested ? 'stopping' : 'running';
  if (process.status === 'created') return 'not started';
  if (process.status === 'lost') return 'lost';
  const reason = EXIT_REASON_LABELS[process.exitReason ?? 'exited'];
  if (process.signal) return reason ? `${reason} ${process.signal}` : process.signal;
  if (reason && process.exitCode) return `${reason}, exit ${process.exitCode}`;
  return reason || `exit ${process.exitCode ?? '?'}`;
}

/** The command as it would be typed in a shell. */
export function commandLine(process: { command: string; args?: string[]; shell?: boolean }): string {
  // SHELL_COMMAND is not a command that the user typed.
  if (process.shell) return process.command === SHELL_COMMAND ? 'shell' : process.command;
  return [process.command, ...(process.args ?? [])].map(quoteWord).join(' ');
}

export function displayCommand(process: ProcessInfo): string {
  return escapeInvisible(commandLine(process));
}

export function processTitle(process: ProcessInfo): string {
  return escapeInvisible(process.tag ?? process.label ?? commandLine(process));
}

/** When the process entered its current status. */
export function statusSinceMs(process: ProcessInfo): number {
  return (process.status === 'exited' ? process.exitedAtMs : process.startedAtMs) ?? process.createdAtMs;
}

/** A coarse duration: 42s, 5m, 3h 10m, 2d 4h. */
export function formatAge(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  if (seconds < 60) return `${seconds}s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)}m`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)}h ${Math.floor((seconds % 3600) / 60)}m`;
  return `${Math.floor(seconds / 86_400)}d ${Math.floor((seconds % 86_400) / 3600)}h`;
}

export function formatBytes(count: number): string {
  if (count < 1024) return `${count} B`;
  if (count < 1024 * 1024) return `${(count / 1024).toFixed(1)} KiB`;
  return `${(count / 1024 / 1024).toFixed(1)} MiB`;
}

/** How a process ended, as a line of text. */
export function exitMessage({ exitCode, signal }: { exitCode: number | null; signal?: string }): string {
  return signal ? `Terminated by ${signal}` : `Exited with code ${exitCode ?? '?'}`;
}

function quoteWord(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}
