import type { ProcessInfo } from '@outlive/client';
import { SHELL_LINE } from './own_shell.js';
import { visible } from './visible.js';

/** `quiet`: over as it should be. */
export type Mood = 'running' | 'waiting' | 'quiet' | 'failed';

export function moodOf(process: ProcessInfo): Mood {
  if (process.status === 'running') return 'running';
  if (process.status === 'created') return 'waiting';
  return process.exitCode === 0 || process.exitReason === 'stopped' ? 'quiet' : 'failed';
}

/** How it is, in a word or two. */
export function stateOf(process: ProcessInfo): string {
  if (process.status === 'running') return process.stopRequested ? 'stopping' : 'running';
  if (process.status === 'created') return 'not started';
  const how = {
    stopped: 'stopped',
    killed: 'killed',
    timedOut: 'timed out',
    outOfMemory: 'out of memory',
    detached: 'detached',
    shutdown: 'shut down',
    exited: '',
  };
  const reason = how[process.exitReason ?? 'exited'];
  if (process.signal) return reason ? `${reason} ${process.signal}` : process.signal;
  return reason && process.exitCode ? `${reason}, exit ${process.exitCode}` : reason || `exit ${process.exitCode ?? '?'}`;
}

/** As one would type it. */
export function commandLine(process: { command: string; args?: string[]; shell?: boolean }): string {
  // Nobody wrote that line.
  if (process.shell) return process.command === SHELL_LINE ? 'shell' : process.command;
  return [process.command, ...(process.args ?? [])].map(quoted).join(' ');
}

/** As it is shown. */
export function shownLine(process: ProcessInfo): string {
  return visible(commandLine(process));
}

export function titleOf(process: ProcessInfo): string {
  return visible(process.tag ?? process.label ?? commandLine(process));
}

/** When what it does now began. */
export function sinceMs(process: ProcessInfo): number {
  return (process.status === 'exited' ? process.exitedAtMs : process.startedAtMs) ?? process.createdAtMs;
}

/** Coarse, as one says it: 42s, 5m, 3h, 2d. */
export function age(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  if (seconds < 60) return `${seconds}s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)}m`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)}h ${Math.floor((seconds % 3600) / 60)}m`;
  return `${Math.floor(seconds / 86_400)}d ${Math.floor((seconds % 86_400) / 3600)}h`;
}

export function bytes(count: number): string {
  if (count < 1024) return `${count} B`;
  if (count < 1024 * 1024) return `${(count / 1024).toFixed(1)} KiB`;
  return `${(count / 1024 / 1024).toFixed(1)} MiB`;
}

function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}
