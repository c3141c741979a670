import { element } from '../page/element.js';
import { errorLine, labelled } from '../page/form.js';
import { logo } from '../page/icons.js';

/** Asks for a token until `signIn` accepts one. `error` is shown first, if there is one. */
export function signInPage(error: unknown, signIn: (token: string) => Promise<void>): HTMLElement {
  const token = element('input', {
    type: 'password',
    required: true,
    autocomplete: 'off',
    spellcheck: 'false',
    class: 'mono',
    'data-testid': 'token',
    'aria-label': 'Token',
  });
  const message = errorLine();
  if (error !== undefined) message.show(error);
  const submit = element('button', { type: 'submit', class: 'primary' }, 'Sign in');
  return element(
    'main',
    { class: 'sign-in' },
    element(
      'form',
      {
        onsubmit: (event: Event) => {
          event.preventDefault();
          submit.disabled = true;
          signIn(token.value.trim())
            .catch(message.show)
            .finally(() => (submit.disabled = false));
        },
      },
      element('h1', {}, logo(), 'outlive'),
      element(
        'p',
        {},
        'This server requires a token. ',
        element('code', {}, 'outlive serve'),
        ' prints a link with one.',
      ),
      labelled('Token', token, 'stored in this tab only'),
      message.element,
      element('footer', {}, submit),
    ),
  );
}
