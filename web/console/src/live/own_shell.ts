/** The shell of whoever runs the server, whatever it is: what "New terminal" starts. */
export const SHELL_LINE = 'exec "${SHELL:-$(command -v bash || echo sh)}"';
